#pragma once

struct admit;
struct write;

/* queue_use: what is written uses only queues that take work of its namespace, and asks for no longer run
 * than the queue and the person may have (api/queue_rules.h). What says nothing of that gets it from the
 * pod grouper, and a pod group that somebody makes by hand here. What comes another way waits: the
 * scheduler knows the namespaces of queues, too. */
int queue_use_admit(struct write *write, struct admit *admit);
