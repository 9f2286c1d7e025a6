#pragma once

/* The variables that this process was started with. */
char **process_environment(void);

/* Gives memory that was freed back to the system, where the allocator keeps it otherwise. */
void process_trim_memory(void);
