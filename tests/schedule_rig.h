/* SPDX-License-Identifier: Apache-2.0
 *
 * One scheduler, one chain of equal chunks, in one line:
 *
 *     OWN_RUN r = SCHEDULE("zb-h1", .p = 3, .m = 4);
 *     assert_int_equal(r.makespan, 14);
 *     assert_string_equal(r.picture, "FFF..BWFBWBWBW\n...");
 *
 * Costs count in units, memory in passes held (chunks of a micro-batch). Include this before or
 * instead of cmocka.h.
 */
#ifndef TEST_SCHEDULE_RIG_H
#define TEST_SCHEDULE_RIG_H

#include "test.h"

#include "planner/schedule_intake.h"
#include "order_chain.h"
#include "reports/order_bounds.h"

#define SCHEDULE_DEVICES 64

struct schedule_case {
    const char *id;
    const char *options; /* "key=value,key=value"; NULL: none */
    uint32_t p, m;       /* devices, micro-batches */
    uint64_t f, b, w, c; /* of one chunk; f, b, w all 0: 1, 1, 1 */
    uint64_t cap;        /* passes that a device may hold; 0: no limit */
    uint64_t unit;       /* nanoseconds and bytes that one unit is; 0: 1 */
    bool barrier;
    bool may_fail;    /* else a failure fails the test */
    uint32_t batches; /* 0: 1; several run without a barrier */
    /* Last word on the question: other costs, caps, sizes. May be NULL. */
    void (*change)(struct pst_order_question *asked, void *context);
    void *context;
};

struct schedule_run {
    pst_status status; /* of the scheduler; without PST_OK only error is set */
    struct pst_error error;
    uint64_t makespan, span, work; /* in units, rounded down */
    uint64_t makespan_ns, span_ns;
    uint64_t peaks[SCHEDULE_DEVICES]; /* in passes held, rounded up */
    uint32_t n_stages, n_chunks;      /* chunks: stages of device 0 */
    char *csv;                        /* PyTorch's cells, modern letters, a line a device */
    char *picture; /* a character a unit, a line a device; NULL where it would be too wide */
    struct pst_order_bounds bounds;
    struct pst_order_question asked;
    struct pst_orders answer;
    struct pst_batches stream;
    struct pst_order_eval eval;
    struct pst_instance *instance;
};

#define SCHEDULE(name, ...) schedule_run(&(struct schedule_case){.id = (name), __VA_ARGS__})

static inline void schedule_run_free(struct schedule_run *run)
{
    free(run->csv);
    free(run->picture);
    pst_order_eval_finish(&run->eval);
    pst_batches_finish(&run->stream);
    pst_orders_finish(&run->answer);
    pst_order_question_finish(&run->asked);
    pst_instance_destroy(run->instance);
    memset(run, 0, sizeof *run);
}

/* A local one. */
#define OWN_RUN FINISHED_BY(schedule_run_free) struct schedule_run

/* Of the device that holds most. */
static inline uint64_t most_held(const struct schedule_run *run)
{
    uint64_t most = 0;

    for (uint32_t d = 0; d < run->asked.in.n_devices; d++) {
        most = run->peaks[d] > most ? run->peaks[d] : most;
    }
    return most;
}

/* For `change`: links as given, in any order, in place of the chain's; free on one device. */
static inline void schedule_connect(struct pst_order_question *asked,
                                    const struct pst_schedule_link *links, uint32_t n_links)
{
    asked->links = pst_arena_array(&asked->arena, n_links + 1, sizeof *asked->links);
    asked->out_links = pst_arena_array(&asked->arena, n_links + 1, sizeof *asked->out_links);
    assert_true(asked->links != NULL && asked->out_links != NULL);
    for (uint32_t i = 0; i < n_links; i++) {
        asked->links[i] = links[i];
        if (asked->stages[links[i].from].device == asked->stages[links[i].to].device) {
            asked->links[i].transfer_ns = 0;
        }
    }
    asked->in.links = asked->links;
    asked->in.out_links = asked->out_links;
    asked->in.n_links = n_links;
    pst_order_question_connect(asked);
}

static inline uint64_t schedule_cost(const struct pst_schedule_stage *stage, uint32_t op)
{
    return op == PST_PASS_F   ? stage->forward_ns
           : op == PST_PASS_B ? stage->backward_input_ns
           : op == PST_PASS_W ? stage->backward_weight_ns
                              : stage->backward_input_ns + stage->backward_weight_ns;
}

/* The ids of all schedulers in the plugin folder, at most `most`; how many. */
static inline uint32_t schedule_ids(char (*ids)[64], uint32_t most)
{
    struct pst_plugin_list *list;
    struct pst_error err = {0};
    uint32_t n = 0;

    assert_ok(pst_plugin_list_create(NULL, &list, &err), &err);
    for (uint32_t i = 0; i < list->n_files && n < most; i++) {
        if (strcmp(list->files[i].kind, "scheduler") == 0 && list->files[i].shadowed_by == NULL) {
            snprintf(ids[n++], sizeof ids[0], "%s", list->files[i].id);
        }
    }
    pst_plugin_list_destroy(list);
    return n;
}

/* An instance of a scheduler of the tree, or at `path`; as the program opens it. */
static inline pst_status schedule_open(const char *id, const char *options,
                                       struct pst_instance **ret_instance, struct pst_error *err)
{
    static const struct pst_host_context context = {.impl = NULL};
    const struct pst_plugin *plugin;
    struct pst_config *config = NULL;
    pst_status st = pst_plugin_find("scheduler", id, NULL, NULL, &plugin, err);

    if (st == PST_OK) {
        st = pst_config_from_list(options == NULL ? "" : options, &config, err);
    }
    if (st == PST_OK) {
        st = pst_instance_create(plugin, config->root, &context, ret_instance, err);
    }
    pst_config_destroy(config);
    return st;
}

static inline char *schedule_csv(const struct pst_batches *stream)
{
    static const char *const kinds[] = {"?", "F", "I", "W", "B", "R"};
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);

    for (uint32_t d = 0; d < stream->in.n_devices; d++) {
        for (uint32_t i = 0; i < stream->n_passes[d]; i++) {
            const struct pst_pass *pass = &stream->passes[d][i];

            fprintf(out, "%s%u%s%u", i > 0 ? "," : "", pass->stage, kinds[pass->op],
                    pass->microbatch);
        }
        fputc('\n', out);
    }
    fclose(out);
    return text;
}

/* Which of its device's stages a stage is. */
static inline uint32_t schedule_chunk(const struct pst_schedule_in *in, uint32_t stage)
{
    uint32_t chunk = 0;

    for (uint32_t s = 0; s < stage; s++) {
        chunk += pst_schedule_stage_at(in, s)->device == pst_schedule_stage_at(in, stage)->device;
    }
    return chunk;
}

/* One chunk: F B W, X for each unit of a fused backward. Two: F b w x and f B W X. */
static inline char schedule_letter(const struct pst_pass *pass, uint32_t chunk, uint32_t n_chunks)
{
    static const char upper[] = "?FBWXR", lower[] = "?fbwxr";
    bool small;

    if (n_chunks > 2) {
        return (char)(pass->op == PST_PASS_F ? '0' + (int)chunk : 'a' + (int)chunk);
    }
    small = n_chunks == 2 && (pass->op == PST_PASS_F ? chunk == 1 : chunk == 0);
    return small ? lower[pass->op] : upper[pass->op];
}

static inline char *schedule_picture(const struct schedule_run *run, uint64_t unit)
{
    size_t width = (size_t)(run->eval.makespan_ns / unit), n = run->stream.in.n_devices;
    char *text;

    if (width > 4096) {
        return NULL;
    }
    text = malloc((width + 1) * n + 1);
    memset(text, '.', (width + 1) * n);
    for (uint32_t d = 0; d < n; d++) {
        char *row = text + d * (width + 1);

        row[width] = '\n';
        for (uint32_t i = 0; i < run->stream.n_passes[d]; i++) {
            const struct pst_pass *pass = &run->stream.passes[d][i];
            size_t from = (size_t)(run->eval.start_ns[d][i] / unit);
            size_t to = (size_t)(run->eval.end_ns[d][i] / unit);

            memset(
                row + from,
                schedule_letter(pass, schedule_chunk(&run->stream.in, pass->stage), run->n_chunks),
                to - from);
        }
    }
    text[(width + 1) * n] = '\0';
    return text;
}

/* Every stage costs the same, whatever its device's share is. */
static inline void schedule_costs(const struct schedule_case *c, uint64_t unit,
                                  struct pst_order_question *asked)
{
    bool plain = c->f == 0 && c->b == 0 && c->w == 0;

    for (uint32_t s = 0; s < asked->in.n_stages; s++) {
        asked->stages[s].forward_ns = (plain ? 1 : c->f) * unit;
        asked->stages[s].backward_input_ns = (plain ? 1 : c->b) * unit;
        asked->stages[s].backward_weight_ns = (plain ? 1 : c->w) * unit;
        asked->stages[s].saved_bytes = asked->stages[s].saved_weight_bytes = unit;
    }
    for (uint32_t d = 0; d < asked->in.n_devices; d++) {
        asked->activation_bytes[d] = c->cap == 0 ? UINT64_MAX : c->cap * unit;
    }
}

static inline pst_status schedule_ask(const struct schedule_case *c, uint64_t unit,
                                      struct schedule_run *run)
{
    const struct pst_order_question_costs costs = {
        .latency_ns = c->c * unit, .limit_bytes = UINT64_MAX, .barrier = c->barrier};
    struct pst_error *err = &run->error;
    pst_status st = schedule_open(c->id, c->options, &run->instance, err);

    if (st == PST_OK) {
        st = order_chain(run->instance, c->p, c->m, &costs, &run->asked, err);
    }
    if (st == PST_OK) {
        schedule_costs(c, unit, &run->asked);
        if (c->change != NULL) {
            c->change(&run->asked, c->context);
        }
        st = pst_orders_ask(run->instance, &run->asked.in, NULL, NULL, &run->answer, err);
    }
    if (st == PST_OK) {
        st = pst_batches_unroll(&run->answer, &run->asked.in, c->batches > 0 ? c->batches : 1,
                                &run->stream, err);
    }
    if (st == PST_OK) {
        st = pst_order_evaluate(&run->stream.in, (const struct pst_pass *const *)run->stream.passes,
                                run->stream.n_passes, &run->eval, err);
    }
    return st;
}

static inline struct schedule_run schedule_run(const struct schedule_case *c)
{
    uint64_t unit = c->unit > 0 ? c->unit : 1;
    struct schedule_run run;

    memset(&run, 0, sizeof run);
    assert_in_range(c->p, 1, SCHEDULE_DEVICES);
    run.status = schedule_ask(c, unit, &run);
    if (run.status != PST_OK && !c->may_fail) {
        fail_msg("%s p %u m %u: %s\n%s", c->id, c->p, c->m, run.error.message, run.error.details);
    }
    if (run.status != PST_OK) {
        return run;
    }
    run.n_stages = run.asked.in.n_stages;
    for (uint32_t s = 0; s < run.n_stages; s++) {
        run.n_chunks += run.asked.stages[s].device == run.asked.stages[0].device;
    }
    run.makespan_ns = run.eval.makespan_ns;
    run.span_ns = run.eval.span_ns;
    run.makespan = run.eval.makespan_ns / unit;
    run.span = run.eval.span_ns / unit;
    run.work = run.eval.work_ns / unit;
    for (uint32_t d = 0; d < c->p; d++) {
        run.peaks[d] = (run.eval.peak_bytes[d] + unit - 1) / unit;
    }
    pst_order_bounds(&run.stream.in, &run.bounds);
    run.csv = schedule_csv(&run.stream);
    run.picture = schedule_picture(&run, unit);
    return run;
}

#endif
