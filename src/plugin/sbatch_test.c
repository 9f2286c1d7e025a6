#include "base/arena.h"
#include "base/cleanup.h"
#include "base/count.h"
#include "base/err.h"
#include "base/str.h"
#include "plugin/sbatch.h"
#include "test.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define GIB ((int64_t)1 << 30)

static bool is(const char *text, const char *wanted)
{
    return wanted ? text && strcmp(text, wanted) == 0 : text == NULL;
}

TEST(what_the_usual_lines_of_sbatch_ask_for_is_read_and_the_rest_is_named)
{
    static const struct {
        const char *why;
        const char *text;
        struct sbatch wanted;
        size_t env;
        const char *unread;
    } rows[] = {
        {"nothing", "#!/bin/bash\npython train.py\n", {.any = false}, 0, NULL},
        {"a usual one",
         "#!/bin/bash\n#SBATCH --job-name=resnet\n#SBATCH --nodes=1\n#SBATCH --gpus-per-node=2\n"
         "#SBATCH --cpus-per-task=8\n#SBATCH --mem=64G\n#SBATCH --time=02:00:00\n"
         "#SBATCH --output=%x-%j.out\n#SBATCH --requeue\n",
         {.any = true,
          .gpus = 2,
          .name = "resnet",
          .time = "02:00:00",
          .requeue = true,
          .memory_bytes = 64 * GIB,
          .cpus = 8},
         0,
         NULL},
        {"letters, two in a line, and words for people",
         "#SBATCH -J exp -t 30 # a short one\n#SBATCH -G4\n#SBATCH -c 2\n#SBATCH -n 4\n",
         {.any = true, .gpus = 4, .name = "exp", .time = "30", .cpus = 8},
         0,
         NULL},
        {"a type before the number",
         "#SBATCH --gres=gpu:a100:8\n#SBATCH --mem-per-gpu 8G\n#SBATCH --cpus-per-gpu=4\n",
         {.any = true, .gpus = 8, .memory_bytes = 64 * GIB, .cpus = 32},
         0,
         NULL},
        {"a type alone", "#SBATCH --gres=gpu:a100\n", {.any = true, .gpus = 1}, 0, NULL},
        {"what is exported",
         "#SBATCH --export=ALL,SEED=1,HOME2\n#SBATCH --array=0-3%2\n",
         {.any = true, .array = "0-3%2"},
         2,
         NULL},
        {"what has no meaning here",
         "#SBATCH --partition=gpu\n",
         {.any = true},
         0,
         "--partition=gpu"},
        {"behind the first command it is a comment",
         "#!/bin/sh\ntrue\n#SBATCH --gpus=8\n",
         {.any = false},
         0,
         NULL},
        {"switched off", "##SBATCH --gpus=8\n", {.any = false}, 0, NULL},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct sbatch got;

        test_case(rows[i].why);
        EXPECT(sbatch_read(&arena, str_from(rows[i].text), &got, NULL) == 0);
        EXPECT(got.any == rows[i].wanted.any && got.requeue == rows[i].wanted.requeue);
        EXPECT(got.gpus == rows[i].wanted.gpus && got.cpus == rows[i].wanted.cpus);
        EXPECT(got.memory_bytes == rows[i].wanted.memory_bytes);
        EXPECT(is(got.name, rows[i].wanted.name) && is(got.time, rows[i].wanted.time));
        EXPECT(is(got.array, rows[i].wanted.array));
        EXPECT(got.env.count == rows[i].env && got.unread.count == (rows[i].unread ? 1 : 0));
        EXPECT(!rows[i].unread || is(got.unread.items[0], rows[i].unread));
    }
}

TEST(what_cannot_be_done_here_is_said_with_its_line)
{
    static const struct {
        const char *text;
        const char *words;
    } rows[] = {
        {"#!/bin/sh\n#SBATCH --gpus=some\n", "line 2: #SBATCH --gpus=some: 'some' is no value"},
        {"#SBATCH --nodes=4\n", "it asks for 4 nodes"},
        {"#SBATCH --gpus=2\n\nsrun python train.py\n", "line 3: there is no srun here"},
    };

    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        _cleanup_(arena_done) struct arena arena = {0};
        struct sbatch got;
        struct err err = {0};

        test_case(rows[i].text);
        EXPECT(sbatch_read(&arena, str_from(rows[i].text), &got, &err) < 0);
        EXPECT(str_contains(str_from(err.text), str_from(rows[i].words)));
    }
}
