#pragma once

/* numa: the NUMA zones of a node that a pod has parts of, as a list of {"zone": NAME, "amount":
 * {RESOURCE: QUANTITY}} in an annotation. KAI's numa-placement-exporter observes what a kubelet gave
 * out; what the scheduler expects it to give out is written with the bind. */
#define NUMA_ANNOTATION_OBSERVED  "kai.scheduler/numa-placement-observed"
#define NUMA_ANNOTATION_PREDICTED "kai.scheduler/numa-placement-predicted"
