#include "api/kind.h"
#include "api/object.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "exec/job_counts.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>

static struct object *job(const struct kind *kind, const char *condition)
{
    _cleanup_(buf_done) struct buf text = {0};
    struct object *object = NULL;

    buf_addf(&text,
             "{\"metadata\":{\"name\":\"j\",\"namespace\":\"team\",\"uid\":\"u\"},\"status\":{"
             "\"conditions\":[{\"type\":\"%s\",\"status\":\"True\"}]}}",
             condition);
    EXPECT(object_new(kind, buf_str(&text), &object, NULL) == 0);
    return object;
}

static bool says(const struct job_counts *counts, const char *line)
{
    _cleanup_(buf_done) struct buf text = {0};

    job_counts_write(counts, &text);
    return str_contains(buf_str(&text), str_from(line));
}

TEST(jobs_are_counted_once_for_each_thing_that_becomes_of_them)
{
    struct job_counts counts = {0};
    struct object *created = job(&kind_pytorchjob, "Created");
    struct object *again = job(&kind_pytorchjob, "Restarting");
    struct object *done = job(&kind_pytorchjob, "Succeeded");
    struct object *pod = job(&kind_pod, "Succeeded");

    job_counts_see(&counts, NULL, created);
    job_counts_see(&counts, created, again);
    job_counts_see(&counts, again, again);
    job_counts_see(&counts, again, done);
    job_counts_see(&counts, done, done);
    job_counts_see(&counts, done, NULL);
    job_counts_see(&counts, NULL, pod);
    EXPECT(says(
        &counts,
        "training_operator_jobs_created_total{job_namespace=\"team\",framework=\"pytorch\"} 1\n"));
    EXPECT(says(&counts, "training_operator_jobs_restarted_total{job_namespace=\"team\",framework="
                         "\"pytorch\"} 1\n"));
    EXPECT(says(&counts, "training_operator_jobs_successful_total{job_namespace=\"team\",framework="
                         "\"pytorch\"} 1\n"));
    EXPECT(says(
        &counts,
        "training_operator_jobs_failed_total{job_namespace=\"team\",framework=\"pytorch\"} 0\n"));
    EXPECT(says(
        &counts,
        "training_operator_jobs_deleted_total{job_namespace=\"team\",framework=\"pytorch\"} 1\n"));
    EXPECT(!says(&counts, "pod"));
    object_unref(created);
    object_unref(again);
    object_unref(done);
    object_unref(pod);
    job_counts_done(&counts);
}
