#pragma once

/* controllers: every controller, one a file; control.c lists them. */
struct controller;

extern const struct controller defaults_controller;       /* default queues, priority classes */
extern const struct controller torchrun_queue_controller; /* TorchrunQueue */
extern const struct controller torchrun_job_controller;   /* TorchrunJob */
extern const struct controller group_controller;          /* pod groups */
