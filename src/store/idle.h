#pragma once

struct write;

/* idle: a warning where the kind is one that nothing acts on. */
void idle_warn(struct write *write);
