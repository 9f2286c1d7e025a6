#include "base/buf.h"
#include "base/count.h"
#include "base/str.h"
#include "replay/policy.h"
#include "replay/result.h"
#include "replay/trace.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A page of its own: curves as SVG, with the table under them. Colours are Okabe and Ito's, which
 * people who see few colours can tell apart; each curve has a dash of its own and its name at its
 * end. */
#define WIDTH  720
#define HEIGHT 260
#define LEFT   64
#define RIGHT  96
#define TOP    24
#define BOTTOM 40
#define TICKS  5

static const char *const colours[] = {"#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                      "#E69F00", "#56B4E9", "#000000"};
static const char *const dashes[] = {"", "8 3", "2 2", "10 3 2 3", "5 5", "1 3", "12 4"};
#define STYLES COUNT_OF(colours)

struct chart {
    const char *title;
    const char *x_axis;
    const char *y_axis;
    double (*value)(const struct replay_sample *sample);
    double x_most;
    double y_most;
};

static double value_allocated(const struct replay_sample *sample)
{
    return 100 * sample->allocated;
}

static double value_fragmented(const struct replay_sample *sample)
{
    return 100 * sample->fragmented;
}

static double value_waiting(const struct replay_sample *sample)
{
    return (double)sample->waiting;
}

static double value_least(const struct replay_sample *sample)
{
    return 100 * sample->least;
}

static double value_fair(const struct replay_sample *sample)
{
    return sample->fair;
}

static double x_at(const struct chart *chart, double x)
{
    return LEFT + (WIDTH - LEFT - RIGHT) * (chart->x_most > 0 ? x / chart->x_most : 0);
}

static double y_at(const struct chart *chart, double y)
{
    return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (chart->y_most > 0 ? y / chart->y_most : 0);
}

static void axes(struct buf *out, const struct chart *chart)
{
    buf_addf(out,
             "<text x=\"%d\" y=\"14\" class=\"title\">%s</text>\n"
             "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%s</text>\n"
             "<text transform=\"translate(14 %d) rotate(-90)\" text-anchor=\"middle\">%s</text>\n",
             LEFT, chart->title, (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, chart->x_axis, HEIGHT / 2,
             chart->y_axis);
    for (int i = 0; i <= TICKS; i++) {
        double x = chart->x_most * i / TICKS;
        double y = chart->y_most * i / TICKS;

        buf_addf(out,
                 "<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>"
                 "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.4g</text>"
                 "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.4g</text>\n",
                 LEFT, WIDTH - RIGHT, y_at(chart, y), y_at(chart, y), LEFT - 6, y_at(chart, y) + 4,
                 y, x_at(chart, x), HEIGHT - BOTTOM + 16, x);
    }
}

static void curve(struct buf *out,
                  const struct chart *chart,
                  const struct replay_result *result,
                  size_t style)
{
    double last = 0;

    buf_addf(out,
             "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"2\" "
             "stroke-dasharray=\"%s\" points=\"",
             colours[style % STYLES], dashes[style % STYLES]);
    for (size_t i = 0; i < result->samples.count; i++) {
        const struct replay_sample *sample = &result->samples.items[i];

        if (sample->at > chart->x_most)
            break;
        last = chart->value(sample);
        buf_addf(out, "%.1f,%.1f ", x_at(chart, sample->at), y_at(chart, last));
    }
    buf_addf(out,
             "\"><title>%s</title></polyline>\n<text x=\"%d\" y=\"%.1f\" fill=\"%s\">%s</text>\n",
             result->policy->name, WIDTH - RIGHT + 6, y_at(chart, last) + 4 + (double)style * 3,
             colours[style % STYLES], result->policy->name);
}

static bool shown(const struct replay_report *report, size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (report->results->items[i].policy == report->results->items[index].policy)
            return false; /* of several seeds the first */
    return true;
}

static void draw(struct buf *out, const struct replay_report *report, struct chart chart)
{
    size_t style = 0;

    for (size_t i = 0; i < report->results->count; i++)
        for (size_t s = 0; s < report->results->items[i].samples.count; s++) {
            const struct replay_sample *sample = &report->results->items[i].samples.items[s];
            double value = chart.value(sample);

            chart.x_most = sample->at > chart.x_most ? sample->at : chart.x_most;
            chart.y_most = value > chart.y_most ? value : chart.y_most;
        }
    buf_addf(out, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"%s\">\n", WIDTH, HEIGHT,
             chart.title);
    axes(out, &chart);
    for (size_t i = 0; i < report->results->count; i++)
        if (shown(report, i))
            curve(out, &chart, &report->results->items[i], style++);
    buf_addf(out, "</svg>\n");
}

void report_page(struct buf *out, const struct replay_report *report)
{
    bool ends = report->trace->ends;
    const char *x = ends ? "hours since the first job" : "GPUs asked for / GPUs there are";
    _cleanup_(buf_done) struct buf table = {0};

    buf_addf(out, "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>muster replay"
                  "</title>\n<style>body{font:14px sans-serif;max-width:60em;margin:2em auto;"
                  "padding:0 1em}svg{width:100%%}svg text{font:11px sans-serif}"
                  "svg .title{font:bold 13px sans-serif}.grid{stroke:#ddd}pre{overflow:auto}"
                  "</style>\n<h1>muster replay</h1>\n");
    draw(out, report, (struct chart){"GPUs in use", x, "% of all", value_allocated, 0, 100});
    draw(out, report,
         (struct chart){"Free GPUs that the jobs could not use", x, "% of all", value_fragmented, 0,
                        1});
    draw(out, report,
         (struct chart){ends ? "Jobs that wait" : "Jobs that found no room", x, "jobs",
                        value_waiting, 0, 1});
    if (ends) {
        draw(out, report,
             (struct chart){"Fairness between queues (Jain's index)", x, "1: equal", value_fair, 0,
                            1});
        draw(out, report,
             (struct chart){"What the worst served queue has of its entitlement", x, "%",
                            value_least, 0, 100});
    }
    report_table(&table, report);
    buf_addf(out, "<pre>");
    buf_add_html(out, buf_str(&table));
    buf_addf(out, "</pre>\n</html>\n");
}
