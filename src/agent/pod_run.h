#pragma once

struct agent;
struct object;
struct pod;

/* pod_run: the life of a pod, from the API's word that it is here to its last status. */
void pod_observe(struct agent *agent, const struct object *object);
void pod_vanish(struct agent *agent, const struct object *object);
/* Do what is due: start, stop, report. Only from the agent's turn; pod_mark() brings it there. */
void pod_step(struct pod *pod);
/* Forget it; its processes go on. */
void pod_free(struct pod *pod);
