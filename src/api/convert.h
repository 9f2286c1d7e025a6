#pragma once

struct arena;
struct json;
struct kind;

/* autoscaling/v1 knows one target; all further metrics of v2 go through this annotation. */
#define HPA_METRICS "autoscaling.alpha.kubernetes.io/metrics"

/* convert: an object in another version of its kind. CRDs change nothing but apiVersion
 * (conversion strategy None); an Event has other names for its members in events.k8s.io;
 * a HorizontalPodAutoscaler of autoscaling/v1 has one target where v2 has a list.
 * `root` is changed in place; `from` and `to` are versions of one kind. */
void convert(struct arena *arena,
             struct json *root,
             const struct kind *from,
             const struct kind *to);
