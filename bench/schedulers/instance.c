/* SPDX-License-Identifier: Apache-2.0
 *
 * Asks a scheduler, times and measures its answer, as given and under noise.
 */
#include "instance.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "order_chain.h"

enum { SAMPLES = 201 };

static void die(const char *scheduler, const struct pst_error *err)
{
    fprintf(stderr, "%s: %s\n%s\n", scheduler, err->message, err->details);
    exit(1);
}

static struct pst_instance *open_scheduler(const char *id, const char *options)
{
    static const struct pst_host_context context = {.impl = NULL};
    const struct pst_plugin *plugin = NULL;
    struct pst_config *config = NULL;
    struct pst_instance *instance = NULL;
    struct pst_error err = {0};

    if (pst_plugin_find("scheduler", id, NULL, NULL, &plugin, &err) != PST_OK ||
        pst_config_from_list(options, &config, &err) != PST_OK ||
        pst_instance_create(plugin, config->root, &context, &instance, &err) != PST_OK) {
        die(id, &err);
    }
    pst_config_destroy(config);
    return instance;
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static uint64_t draw(uint64_t *state, uint64_t most)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15U;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return most == 0 ? 0 : (z ^ (z >> 31)) % (most + 1);
}

static uint64_t vary(uint64_t *state, uint64_t ns, double noise)
{
    uint64_t reach = (uint64_t)((double)ns * noise);

    return ns - reach + draw(state, 2 * reach);
}

/* The instance with other times; the caller keeps `stages` and `links`. */
static void disturb(const struct pst_order_question *asked, double noise, uint64_t *state,
                    struct pst_schedule_stage *stages, struct pst_schedule_link *links)
{
    uint64_t sum = 0;

    for (uint32_t s = 0; s < asked->in.n_stages; s++) {
        stages[s] = asked->stages[s];
        sum += stages[s].forward_ns + stages[s].backward_input_ns + stages[s].backward_weight_ns;
        stages[s].forward_ns = vary(state, stages[s].forward_ns, noise);
        stages[s].backward_input_ns = vary(state, stages[s].backward_input_ns, noise);
        stages[s].backward_weight_ns = vary(state, stages[s].backward_weight_ns, noise);
    }
    for (uint32_t i = 0; i < asked->in.n_links; i++) {
        uint64_t mean = sum / (3 * (uint64_t)asked->in.n_stages);

        links[i] = asked->links[i];
        if (stages[links[i].from].device != stages[links[i].to].device) {
            links[i].transfer_ns += draw(state, (uint64_t)((double)mean * noise));
        }
    }
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

/* Quantiles of the goal's figure over samples of the instance. */
static void measure_noise(const struct pst_order_question *asked, const struct pst_batches *stream,
                          double noise, struct bench_figures *ret)
{
    struct pst_schedule_stage *stages = calloc(asked->in.n_stages, sizeof *stages);
    struct pst_schedule_link *links = calloc(asked->in.n_links + 1, sizeof *links);
    uint64_t state = 20250101, costs[SAMPLES];
    struct pst_schedule_in in = stream->in;

    in.stages = stages;
    in.stage_size = sizeof *stages;
    in.links = links;
    in.link_size = sizeof *links;
    for (uint32_t i = 0; i < SAMPLES && stages != NULL && links != NULL; i++) {
        struct pst_order_eval eval;
        struct pst_error err = {0};

        disturb(asked, noise, &state, stages, links);
        if (pst_order_evaluate(&in, (const struct pst_pass *const *)stream->passes,
                               stream->n_passes, &eval, &err) != PST_OK) {
            die("noise", &err);
        }
        costs[i] = in.barrier != 0 ? eval.makespan_ns : eval.span_ns;
        pst_order_eval_finish(&eval);
    }
    qsort(costs, SAMPLES, sizeof costs[0], compare);
    ret->median = (double)costs[SAMPLES / 2];
    ret->late = (double)costs[SAMPLES * 9 / 10];
    free(stages);
    free(links);
}

static void measure(const struct pst_order_question *asked, const struct pst_orders *answer,
                    double noise, const char *scheduler, struct bench_figures *ret)
{
    struct pst_batches stream;
    struct pst_order_eval eval;
    struct pst_order_bounds bounds;
    struct pst_error err = {0};

    if (pst_batches_unroll(answer, &asked->in, 1, &stream, &err) != PST_OK ||
        pst_order_evaluate(&stream.in, (const struct pst_pass *const *)stream.passes,
                           stream.n_passes, &eval, &err) != PST_OK) {
        die(scheduler, &err);
    }
    ret->found = true;
    ret->span = eval.span_ns;
    ret->makespan = eval.makespan_ns;
    ret->work = eval.work_ns;
    for (uint32_t d = 0; d < asked->in.n_devices; d++) {
        ret->peaks[d] = eval.peak_bytes[d];
        ret->most = ret->most > eval.peak_bytes[d] ? ret->most : eval.peak_bytes[d];
    }
    pst_order_bounds(&asked->in, &bounds);
    ret->bound_span = bounds.span_ns;
    ret->bound_makespan = bounds.makespan_ns;
    if (noise > 0.0) {
        measure_noise(asked, &stream, noise, ret);
    }
    pst_order_eval_finish(&eval);
    pst_batches_finish(&stream);
}

void bench_measure(const char *scheduler, const char *options, const struct bench_instance *x,
                   double noise, struct bench_figures *ret_figures)
{
    const struct pst_order_question_costs costs = {.forward_ns = x->f,
                                                   .backward_input_ns = x->b,
                                                   .backward_weight_ns = x->w,
                                                   .latency_ns = x->c,
                                                   .saved_bytes = x->saved,
                                                   .saved_weight_bytes = x->saved_weight,
                                                   .limit_bytes = UINT64_MAX,
                                                   .barrier = x->barrier};
    struct pst_instance *instance = open_scheduler(scheduler, options);
    struct pst_orders answer;
    struct pst_order_question asked;
    struct pst_error err = {0};
    double begin;

    memset(ret_figures, 0, sizeof *ret_figures);
    if (order_chain(instance, x->p, x->m, &costs, &asked, &err) != PST_OK) {
        pst_instance_destroy(instance);
        return;
    }
    if (x->shape != NULL) {
        x->shape(&asked);
    }
    for (uint32_t d = 0; d < x->p && x->caps != NULL; d++) {
        asked.activation_bytes[d] = x->caps[d];
    }
    begin = now();
    if (pst_orders_ask(instance, &asked.in, NULL, NULL, &answer, &err) == PST_OK) {
        ret_figures->seconds = now() - begin;
        measure(&asked, &answer, noise, scheduler, ret_figures);
        pst_orders_finish(&answer);
    }
    pst_order_question_finish(&asked);
    pst_instance_destroy(instance);
}
