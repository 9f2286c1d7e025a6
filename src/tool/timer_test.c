#include "base/count.h"
#include "test.h"
#include "tool/timer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <uv.h>

/* What happened, in order: a letter an event. */
struct story {
    uv_loop_t loop;
    struct timer *timer;
    char text[16];
    size_t len;
};

static void tell(struct story *story, char what)
{
    if (story->len < COUNT_OF(story->text) - 1)
        story->text[story->len++] = what;
}

static void first(void *user)
{
    tell(user, 'a');
}

static void second(void *user)
{
    tell(user, 'b');
}

static void thrice(void *user)
{
    struct story *story = user;
    tell(story, 'r');
    if (story->len == 3)
        timer_cancel(story->timer);
}

static void closed(void *user)
{
    tell(user, 'c');
}

static void close_itself(void *user)
{
    struct story *story = user;
    tell(story, 'x');
    timer_close(story->timer, closed);
    tell(story, 'y');
}

static void story_begin(struct story *story)
{
    *story = (struct story){0};
    EXPECT(uv_loop_init(&story->loop) == 0);
    story->timer = timer_new(&story->loop, story);
}

static void story_run(struct story *story)
{
    EXPECT(uv_run(&story->loop, UV_RUN_DEFAULT) == 0);
}

/* Closing fails when a handle was left open. */
static void story_end(struct story *story)
{
    story_run(story);
    EXPECT(uv_loop_close(&story->loop) == 0);
}

TEST(timer_calls_once_what_it_was_set_to_last)
{
    struct story story;
    story_begin(&story);
    EXPECT(!timer_is_set(story.timer));
    EXPECT(timer_due_in_ms(story.timer) == INT64_MAX);
    timer_in(story.timer, 60000, first);
    EXPECT(timer_is_set(story.timer));
    EXPECT(timer_due_in_ms(story.timer) <= 60000);
    timer_in(story.timer, -5, second);
    EXPECT(timer_due_in_ms(story.timer) == 0);
    story_run(&story);
    EXPECT(strcmp(story.text, "b") == 0);
    EXPECT(!timer_is_set(story.timer));
    timer_free(story.timer);
    story_end(&story);
}

TEST(timer_repeats_until_it_is_cancelled)
{
    struct story story;
    story_begin(&story);
    timer_every(story.timer, 0, 1, thrice);
    story_run(&story);
    EXPECT(strcmp(story.text, "rrr") == 0);
    timer_free(story.timer);
    story_end(&story);
}

static void again(void *user)
{
    struct story *story = user;
    tell(story, 'r');
    if (story->len < 5)
        timer_in(story->timer, 0, again);
}

static void on_turn(uv_prepare_t *prepare)
{
    tell(prepare->data, '.');
}

/* Else work that never ends keeps the loop from everybody who waits on a socket. */
TEST(timer_that_sets_itself_for_now_is_called_in_the_next_turn)
{
    struct story story;
    uv_prepare_t prepare;
    story_begin(&story);
    uv_prepare_init(&story.loop, &prepare);
    prepare.data = &story;
    uv_prepare_start(&prepare, on_turn);
    uv_unref((uv_handle_t *)&prepare);
    timer_in(story.timer, 0, again);
    story_run(&story);
    EXPECT(strstr(story.text, "r.r.r"));
    uv_close((uv_handle_t *)&prepare, NULL);
    timer_free(story.timer);
    story_end(&story);
}

TEST(timer_that_is_freed_is_not_called)
{
    struct story story;
    story_begin(&story);
    timer_in(story.timer, 0, first);
    timer_free(story.timer);
    timer_free(NULL);
    story_end(&story);
    EXPECT(strcmp(story.text, "") == 0);
}

TEST(timer_may_be_closed_by_its_own_callback_and_reports_it_later)
{
    struct story story;
    story_begin(&story);
    timer_every(story.timer, 0, 1, close_itself);
    story_end(&story);
    EXPECT(strcmp(story.text, "xyc") == 0);
}

TEST(timer_without_a_reference_does_not_hold_the_loop)
{
    struct story story;
    story_begin(&story);
    timer_in(story.timer, 3600000, first);
    timer_unref(story.timer);
    story_run(&story);
    EXPECT(strcmp(story.text, "") == 0);
    timer_free(story.timer);
    story_end(&story);
}
