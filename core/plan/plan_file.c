/* SPDX-License-Identifier: Apache-2.0
 *
 * The plan as JSON, one stage, edge or instruction a line: the same plan gives the same bytes. A
 * file may come from anybody, so every field is held against its type and range. What the fields
 * say is for the checker.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/util.h"
#include "config/codec.h"
#include "graph/split.h"
#include "plan/plan.h"
#include "plan/sequence.h"
#include "plan/gathers.h"

#define MOST_INSTRS       100000000u
#define MOST_DEVICES      65536u
#define MOST_STAGES       65536u
#define MOST_MICROBATCHES (1u << 20)

/* Operators or parameters of the model, which a file names. */
struct names {
    const char *what;
    const char *(*name_at)(const struct pst_graph *, uint32_t);
    const struct pst_names *index;
};

struct file {
    struct pst_codec codec;
    const struct pst_graph *graph;
    struct names ops, params;
    struct pst_plan *plan;
    uint64_t n_instrs;
    uint32_t version;
    struct pst_plan_stated *stated; /* of what is read */
};

/* --- names -------------------------------------------------------------------------------------*/

static const char *op_name(const struct pst_graph *graph, uint32_t i)
{
    return graph->ops[i].name;
}

static const char *param_name(const struct pst_graph *graph, uint32_t i)
{
    return graph->params[i].name;
}

static void name_all(struct file *f, const struct pst_graph *graph)
{
    f->graph = graph;
    f->ops = (struct names){"operator", op_name, &graph->op_names};
    f->params = (struct names){"parameter", param_name, &graph->param_names};
}

/* *index, by name; PST_NONE where what is read is none. */
static void code_name(struct file *f, const struct names *names, const char *key, uint32_t *index)
{
    const char *name = pst_codec_reads(&f->codec) ? NULL : names->name_at(f->graph, *index);

    pst_codec_string(&f->codec, key, &name);
    if (!pst_codec_reads(&f->codec)) {
        return;
    }
    *index = name == NULL ? PST_NONE : pst_names_find(names->index, name);
    if (name != NULL && *index == PST_NONE) {
        pst_codec_fail(&f->codec, NULL, key, "the model has no %s \"%.64s\"", names->what, name);
    }
}

static void code_op(struct file *f, uint32_t *op)
{
    code_name(f, &f->ops, NULL, op);
}

/* --- the head ----------------------------------------------------------------------------------*/

/* A plan that uses nothing of version 2 is of version 1. */
static uint32_t version_of(const struct pst_plan *plan)
{
    return plan->zero > 0 || pst_plan_tensor(plan) > 1 ? 2 : 1;
}

static void code_format(struct file *f)
{
    struct pst_codec *c = &f->codec;

    f->version = pst_codec_reads(c) ? 1 : version_of(f->plan);
    pst_codec_constant(c, "format", "penstock-plan");
    pst_codec_uint(c, "version", &f->version);
    if ((f->version < 1 || f->version > 2) && pst_codec_is_sound(c)) {
        pst_codec_fail(c, "input.unsupported", NULL,
                       "version %u; this program reads versions 1 and 2", f->version);
    }
}

/* Ways of operators, as struct pst_graph has them; in reading, the first of the file and the first
   of the graph that are not the same. */
struct by_name {
    const char *there, *here;
};

/* Returns true if there are any. */
static bool code_by_name(struct file *f, struct by_name *ret_differ)
{
    struct pst_codec *c = &f->codec;
    const struct pst_graph *graph = f->graph;
    const bool has = pst_codec_has(c, "way", graph->n_by_name > 0);
    const uint32_t read = has ? pst_codec_array(c, "way") : 0;
    const uint32_t n = pst_codec_reads(c) ? read : graph->n_by_name;

    for (uint32_t i = 0; i < n; i++) {
        const char *here = i < graph->n_by_name ? graph->by_name[i] : NULL, *text = here;

        pst_codec_string(c, NULL, &text);
        if (text == NULL || here == NULL || strcmp(text, here) != 0) {
            *ret_differ = ret_differ->there == NULL ? (struct by_name){text, here} : *ret_differ;
        }
    }
    if (has) {
        pst_codec_end(c);
    }
    if (n < graph->n_by_name && ret_differ->there == NULL) {
        ret_differ->here = graph->by_name[n];
    }
    return n > 0;
}

static void check_ways(struct file *f, uint32_t ways, const struct by_name *differ)
{
    if (ways != f->graph->ways && pst_codec_is_sound(&f->codec)) {
        pst_codec_fail(
            &f->codec, NULL, "parallel",
            "the plan was made with parallel.ways = \"%s\", here it is \"%s\"; plan again",
            pst_ways_names[ways], pst_ways_names[f->graph->ways]);
    }
    if ((differ->there != NULL || differ->here != NULL) && pst_codec_is_sound(&f->codec)) {
        pst_codec_fail(&f->codec, NULL, "parallel",
                       "the plan was made with another [[parallel.way]], which says %.200s, here "
                       "%.200s; plan again",
                       differ->there == NULL ? "nothing" : differ->there,
                       differ->here == NULL ? "nothing" : differ->here);
    }
}

/* Keys that are 0, false or "auto" are left out; so is an empty table. */
static void code_parallel(struct file *f)
{
    struct pst_codec *c = &f->codec;
    const bool here = f->graph->sequence;
    bool sequence = !pst_codec_reads(c) && here;
    uint32_t ways = pst_codec_reads(c) ? PST_WAYS_AUTO : f->graph->ways;
    struct by_name differ = {NULL, NULL};
    bool has_way = false;

    if (pst_codec_has(c, "parallel", f->plan->zero > 0 || sequence || f->graph->n_by_name > 0)) {
        pst_codec_object(c, "parallel");
        const bool has_zero = pst_codec_has(c, "zero", f->plan->zero > 0);
        const bool has_prefetch = pst_codec_has(c, "prefetch", f->plan->prefetch > 0);
        const bool has_sequence = pst_codec_has(c, "sequence", sequence);

        if (has_sequence) {
            pst_codec_bool(c, "sequence", &sequence);
        }
        if (pst_codec_has(c, "ways", ways != PST_WAYS_AUTO)) {
            pst_codec_word(c, "ways", &ways, pst_ways_names, PST_WAYS_AUTO);
        }
        has_way = code_by_name(f, &differ);
        if (has_zero) {
            pst_codec_uint(c, "zero", &f->plan->zero);
        }
        if (has_prefetch) {
            pst_codec_uint(c, "prefetch", &f->plan->prefetch);
        }
        pst_codec_end(c);
        if (has_zero && (f->plan->zero < 1 || f->plan->zero > 3) && pst_codec_is_sound(c)) {
            pst_codec_fail(c, "input.unsupported", "parallel",
                           "zero = %u, expected 1, 2 or 3; leave the key out for 0", f->plan->zero);
        } else if (has_prefetch && pst_codec_is_sound(c) &&
                   (f->plan->zero < 2 || f->plan->prefetch < 1 ||
                    f->plan->prefetch > PST_MOST_PREFETCH)) {
            pst_codec_fail(c, "input.unsupported", "parallel",
                           "prefetch = %u with zero = %u, expected 1 to %d, with zero = 2 or 3; "
                           "leave the key out for 0",
                           f->plan->prefetch, f->plan->zero, PST_MOST_PREFETCH);
        } else if ((has_sequence ? !sequence : !has_zero && !has_way) && pst_codec_is_sound(c)) {
            pst_codec_fail(c, "input.unsupported", "parallel",
                           "expected zero = 1, 2 or 3, sequence = true, way, or several of "
                           "them; ways go with sequence");
        }
    } else {
        differ.here = f->graph->n_by_name > 0 ? f->graph->by_name[0] : NULL;
    }
    check_ways(f, ways, &differ);
    if (sequence != here && pst_codec_is_sound(c)) {
        pst_codec_fail(c, NULL, "parallel",
                       "the plan was made with parallel.sequence = %s, here it is %s; plan again",
                       sequence ? "true" : "false", here ? "true" : "false");
    }
}

static void code_digest(struct pst_codec *c, const char *key, uint64_t *digest)
{
    char text[20];
    const char *at = text;
    int end = 0;

    snprintf(text, sizeof text, "%016llx", (unsigned long long)*digest);
    pst_codec_string(c, key, &at);
    if (pst_codec_reads(c) && at != NULL) {
        unsigned long long read = 0;

        if (strspn(at, "0123456789abcdef") != 16 || sscanf(at, "%16llx%n", &read, &end) != 1 ||
            at[end] != '\0') {
            pst_codec_fail(c, NULL, key, "expected 16 hexadecimal digits");
        }
        *digest = read;
    }
}

/* The job, as it was written: what is read is the text itself. */
static void code_provenance(struct file *f, const char *text, size_t length)
{
    struct pst_codec *c = &f->codec;
    struct pst_plan *plan = f->plan;

    pst_codec_object(c, "provenance");
    if (!pst_codec_null(c, "config", plan->config_json == NULL)) {
        pst_codec_verbatim(c, "config", text, length, &plan->config_json);
    }
    pst_codec_text(c, "partitioner", &plan->partitioner);
    pst_codec_text(c, "scheduler", &plan->scheduler);
    pst_codec_text(c, "memopt", &plan->memopt);
    if (pst_codec_has(c, "isolated", true)) {
        pst_codec_bool(c, "isolated", &plan->isolated);
    }
    code_digest(c, "graph_digest", &plan->graph_digest);
    if (pst_codec_null(c, "capacity_bytes", plan->capacity_bytes == UINT64_MAX)) {
        plan->capacity_bytes = UINT64_MAX;
    } else {
        pst_codec_bytes(c, "capacity_bytes", &plan->capacity_bytes);
    }
    pst_codec_uint(c, "optimizer_slots", &plan->optimizer_slots);
    pst_codec_end(c);
}

/* Sets the fields that the words of mode and rule mean. */
static void set_mode(struct file *f, const char *mode, const char *rule)
{
    struct pst_plan *plan = f->plan;

    plan->asynchronous = strcmp(mode, "async") == 0;
    plan->version_rule = plan->asynchronous ? PST_VERSION_DELAYED : PST_VERSION_SYNC;
    if (plan->asynchronous && strcmp(rule, "stashed") == 0) {
        plan->version_rule = PST_VERSION_STASHED;
    } else if (strcmp(mode, plan->asynchronous ? "async" : "sync") != 0 ||
               strcmp(rule, plan->asynchronous ? "delayed" : "sync") != 0) {
        pst_codec_fail(&f->codec, "input.unsupported", NULL,
                       "mode \"%.16s\" with versions \"%.16s\"; this program knows \"sync\" with "
                       "\"sync\", \"async\" with \"delayed\" or \"stashed\"",
                       mode, rule);
    } else if (!plan->asynchronous && (plan->drain_every != 0 || plan->deferred_step)) {
        pst_codec_fail(&f->codec, NULL, NULL,
                       "drain_every and deferred_step belong to asynchronous plans");
    }
}

static uint32_t most_versions(const struct pst_plan *plan)
{
    uint32_t versions = 0;

    for (uint32_t s = 0; s < plan->n_stages; s++) {
        versions =
            plan->stages[s].weight_versions > versions ? plan->stages[s].weight_versions : versions;
    }
    return versions;
}

static void code_mode(struct file *f)
{
    static const char *const rules[] = {
        [PST_VERSION_SYNC] = "sync",
        [PST_VERSION_DELAYED] = "delayed",
        [PST_VERSION_STASHED] = "stashed",
    };
    struct pst_codec *c = &f->codec;
    struct pst_plan *plan = f->plan;
    const char *mode = plan->asynchronous ? "async" : "sync", *rule = rules[plan->version_rule];
    uint32_t versions = most_versions(plan); /* follows from the stages */

    pst_codec_string(c, "mode", &mode);
    pst_codec_uint(c, "drain_every", &plan->drain_every);
    if (pst_codec_reads(c)) {
        plan->barrier = true; /* where the file says nothing */
    }
    if (pst_codec_has(c, "barrier", true)) {
        pst_codec_bool(c, "barrier", &plan->barrier);
    }
    if (pst_codec_has(c, "copies", plan->copies > 1)) {
        pst_codec_uint(c, "copies", &plan->copies);
        if (plan->copies < 1 || plan->copies > 2) {
            pst_codec_fail(c, "input.unsupported", "copies", "expected 1 or 2, not %u",
                           plan->copies);
        }
    }
    if (pst_codec_has(c, "deferred_step", true)) {
        pst_codec_bool(c, "deferred_step", &plan->deferred_step);
    }
    pst_codec_object(c, "versions");
    pst_codec_string(c, "rule", &rule);
    if (pst_codec_has(c, "count", true)) {
        pst_codec_uint(c, "count", &versions);
        if (pst_codec_reads(c) && versions == 0) {
            pst_codec_fail(c, NULL, "count", "0, expected at least 1");
        } else if (pst_codec_reads(c)) {
            f->stated->versions = versions;
        }
    }
    pst_codec_end(c);
    if (pst_codec_reads(c) && mode != NULL && rule != NULL) {
        set_mode(f, mode, rule);
    }
}

static void code_predicted(struct file *f)
{
    struct pst_codec *c = &f->codec;
    double step_us = (double)f->plan->step_ns / 1000.0;

    pst_codec_object(c, "predicted");
    pst_codec_number(c, "step_us", &step_us, 0, 9e15);
    if (pst_codec_has(c, "times", f->plan->times != NULL)) {
        pst_codec_text(c, "times", &f->plan->times);
    }
    pst_codec_end(c);
    if (pst_codec_reads(c)) {
        f->plan->step_ns = (uint64_t)llround(step_us * 1000.0);
    }
}

/* --- stages ------------------------------------------------------------------------------------*/

/* The operators with one action, in the order of the nodes. */
static void code_actions(struct file *f, const char *key, struct pst_plan_stage *stage,
                         uint8_t *actions, uint8_t action)
{
    struct pst_codec *c = &f->codec;
    uint32_t n = pst_codec_array(c, key), at = 0, op;

    for (; !pst_codec_reads(c) && at < stage->n_nodes; at++) {
        if (stage->actions[at] == action) {
            op = stage->nodes[at];
            code_op(f, &op);
        }
    }
    for (uint32_t i = 0; i < n && pst_codec_is_sound(c); i++) {
        code_op(f, &op);
        while (at < stage->n_nodes && stage->nodes[at] != op) {
            at++; /* one walk finds them all */
        }
        if (at == stage->n_nodes || actions[at] != PST_ACTION_KEEP) {
            pst_codec_fail(c, NULL, NULL,
                           "element %u: expected an operator of the stage, in the order of nodes, "
                           "with one action",
                           i);
            break;
        }
        actions[at++] = action;
    }
    pst_codec_end(c);
}

/* Pairs of a micro-batch and the device that keeps it. */
static void code_guests(struct file *f, struct pst_plan_stage *stage)
{
    struct pst_codec *c = &f->codec;
    struct pst_plan_guest *guests;

    if (!pst_codec_has(c, "guests", stage->n_guests > 0)) {
        return;
    }
    guests = pst_codec_items(c, "guests", &stage->guests, &stage->n_guests, sizeof *guests);
    if (stage->n_guests == 0 || stage->n_guests > stage->n_microbatches) {
        pst_codec_fail(c, NULL, NULL, "%u guests of %u micro-batches; leave the list out for none",
                       stage->n_guests, stage->n_microbatches);
    }
    for (uint32_t i = 0; i < stage->n_guests && pst_codec_is_sound(c); i++) {
        pst_codec_array(c, NULL); /* [micro-batch, device] */
        pst_codec_uint(c, NULL, &guests[i].microbatch);
        pst_codec_uint(c, NULL, &guests[i].rank);
        pst_codec_end(c);
    }
    pst_codec_end(c);
}

/* An operator of the stage, by its position there. */
static void code_position(struct file *f, const struct pst_plan_stage *stage, uint32_t *position)
{
    uint32_t op = pst_codec_reads(&f->codec) ? PST_NONE : stage->nodes[*position];

    code_op(f, &op);
    if (pst_codec_reads(&f->codec)) {
        *position = op != PST_NONE ? pst_plan_node(stage, op) : PST_NONE;
        if (*position == PST_NONE && pst_codec_is_sound(&f->codec)) {
            pst_codec_fail(&f->codec, NULL, NULL,
                           "expected three operators of the stage: whose "
                           "backward comes next, the first and the last that run again");
        }
    }
}

/* Replays, which ascend; there may be none. */
static void code_sequence(struct file *f, struct pst_plan_stage *stage)
{
    struct pst_codec *c = &f->codec;
    struct pst_replay *replays;
    const char *fault;
    uint32_t at = 0;

    if (!pst_codec_has(c, "sequence", stage->n_replays > 0)) {
        return;
    }
    replays = pst_codec_items(c, "sequence", &stage->replays, &stage->n_replays, sizeof *replays);
    if (stage->n_replays > stage->n_nodes) {
        pst_codec_fail(c, NULL, NULL, "%u replays, more than the stage has operators",
                       stage->n_replays);
    }
    for (uint32_t i = 0; i < stage->n_replays && pst_codec_is_sound(c); i++) {
        pst_codec_array(c, NULL);
        code_position(f, stage, &replays[i].before);
        code_position(f, stage, &replays[i].first);
        code_position(f, stage, &replays[i].last);
        pst_codec_end(c);
    }
    if (pst_codec_reads(c) && pst_codec_is_sound(c)) {
        fault = pst_sequence_fault(replays, stage->n_replays, stage->n_nodes, &at);
        if (fault != NULL) {
            pst_codec_fail(c, NULL, NULL, "[%u]: %s", at, fault);
        }
    }
    pst_codec_end(c);
}

/* A stage that was read becomes one of the plan; NULL: it cannot be one. */
static struct pst_plan_stage *add_stage(struct file *f, const struct pst_plan_stage *read)
{
    struct pst_codec *c = &f->codec;
    struct pst_plan *plan = f->plan;
    struct pst_plan_stage *stage;
    uint32_t size = read->microbatch_size;

    if (pst_codec_is_sound(c) && size == 0) {
        pst_codec_fail(c, NULL, "microbatch_size", "0, expected at least 1");
    } else if (pst_codec_is_sound(c) && plan->batch / size > MOST_MICROBATCHES) {
        pst_codec_fail(c, "input.limit", NULL, "%u micro-batches; at most %u", plan->batch / size,
                       MOST_MICROBATCHES);
    }
    if (!pst_codec_is_sound(c)) {
        return NULL;
    }
    pst_plan_add_stage(plan, read->nodes, read->n_nodes, read->ranks, read->n_ranks, size, read->k);
    stage = &plan->stages[plan->n_stages - 1];
    stage->tensor = read->tensor;
    stage->in_flight = read->in_flight;
    stage->weight_versions = read->weight_versions;
    stage->actions = pst_arena_array(&plan->arena, stage->n_nodes, 1);
    return stage;
}

static void code_nodes(struct file *f, struct pst_plan_stage *stage)
{
    struct pst_codec *c = &f->codec;
    uint32_t *nodes = pst_codec_items(c, "nodes", &stage->nodes, &stage->n_nodes, sizeof *nodes);

    if (stage->n_nodes > f->graph->n_ops) {
        pst_codec_fail(c, NULL, NULL, "%u operators, the model has %u", stage->n_nodes,
                       f->graph->n_ops);
    }
    for (uint32_t i = 0; i < stage->n_nodes && pst_codec_is_sound(c); i++) {
        code_op(f, &nodes[i]);
    }
    pst_codec_end(c);
}

/* Parts of a replica are ranks in a row. */
static bool are_groups(const struct pst_plan_stage *stage)
{
    const uint32_t tensor = stage->tensor;
    uint32_t i = 0;

    while (i < stage->n_ranks &&
           stage->ranks[i] == (uint64_t)stage->ranks[i / tensor * tensor] + i % tensor) {
        i++;
    }
    return i == stage->n_ranks;
}

static void code_ranks(struct file *f, struct pst_plan_stage *stage)
{
    struct pst_codec *c = &f->codec;

    pst_codec_uints(c, "devices", &stage->ranks, &stage->n_ranks);
    if (!pst_codec_reads(c) || !pst_codec_is_sound(c)) {
        return;
    }
    if (stage->n_ranks > f->plan->n_devices) {
        pst_codec_fail(c, NULL, "devices", "more devices than there are");
    } else if (stage->n_ranks % stage->tensor != 0) {
        pst_codec_fail(c, NULL, "devices", "%u devices, which %u parts do not divide",
                       stage->n_ranks, stage->tensor);
    } else if (!are_groups(stage)) {
        pst_codec_fail(c, NULL, "devices", "expected %u devices in a row for each replica",
                       stage->tensor);
    }
}

/* Left out where a replica is a rank. Before the operators, which another number of parts has not.
 */
static void code_tensor(struct file *f, struct pst_plan_stage *stage)
{
    struct pst_codec *c = &f->codec;
    const bool stated = pst_codec_has(c, "tensor", stage->tensor > 1);

    stage->tensor = pst_codec_reads(c) ? 1 : stage->tensor;
    if (stated) {
        pst_codec_uint(c, "tensor", &stage->tensor);
    }
    if (!pst_codec_reads(c) || !pst_codec_is_sound(c)) {
        return;
    }
    if (stated && stage->tensor < 2) {
        pst_codec_fail(c, NULL, "tensor", "%u, expected 2 or more; leave the key out for 1",
                       stage->tensor);
    } else if (f->graph->degree_of == NULL && stage->tensor != f->graph->parts) {
        pst_codec_fail(c, NULL, "tensor",
                       "the plan was made with parallel.tensor = %u, here it is %u; plan again",
                       stage->tensor, f->graph->parts);
    }
}

static void code_stage(struct file *f, uint32_t s)
{
    struct pst_codec *c = &f->codec;
    struct pst_plan *plan = f->plan;
    struct pst_plan_stage at = {0}, *stage = &at;
    uint64_t peak = 0; /* of the device that the stage shares with its neighbours there */

    if (!pst_codec_reads(c)) {
        at = plan->stages[s];
        peak = at.n_ranks > 0 && at.ranks[0] < plan->n_devices
                   ? plan->devices[at.ranks[0]].peak_bytes
                   : 0;
    }
    pst_codec_newline(c);
    pst_codec_object(c, NULL);
    pst_codec_position(c, "id", s);
    code_tensor(f, &at);
    code_nodes(f, &at);
    code_ranks(f, &at);
    pst_codec_uint(c, "microbatch_size", &at.microbatch_size);
    pst_codec_uint(c, "k", &at.k);
    pst_codec_uint(c, "in_flight", &at.in_flight);
    pst_codec_uint(c, "weight_versions", &at.weight_versions);
    stage = pst_codec_reads(c) ? add_stage(f, &at) : stage;
    if (stage != NULL) {
        uint8_t *actions = (uint8_t *)(uintptr_t)stage->actions; /* of a stage that is read */

        code_actions(f, "recompute", stage, actions, PST_ACTION_RECOMPUTE);
        code_actions(f, "offload", stage, actions, PST_ACTION_OFFLOAD);
        code_actions(f, "peer", stage, actions, PST_ACTION_PEER);
        code_guests(f, stage);
        code_sequence(f, stage);
    }
    pst_codec_bytes(c, "peak_bytes", &peak);
    if (pst_codec_reads(c)) {
        f->stated->stage_peaks[s] = peak;
    }
    pst_codec_end(c);
}

/* --- edges and ties ----------------------------------------------------------------------------*/

static void code_edge(struct file *f, uint32_t e, struct pst_plan_edge *edge)
{
    struct pst_codec *c = &f->codec;
    const struct pst_graph *graph = f->graph;
    uint32_t *tensors;

    pst_codec_newline(c);
    pst_codec_object(c, NULL);
    pst_codec_position(c, "id", e);
    pst_codec_uint(c, "from", &edge->from);
    pst_codec_uint(c, "to", &edge->to);
    tensors = pst_codec_items(c, "tensors", &edge->tensors, &edge->n_tensors, sizeof *tensors);
    for (uint32_t t = 0; t < edge->n_tensors && pst_codec_is_sound(c); t++) {
        /* a result has the name of its operator */
        uint32_t op = pst_codec_reads(c) ? PST_NONE : graph->tensors[tensors[t]].producer;

        code_op(f, &op);
        if (pst_codec_reads(c)) {
            tensors[t] = op != PST_NONE ? graph->ops[op].out[0] : PST_NONE;
        }
    }
    pst_codec_end(c);
    pst_codec_bytes(c, "bytes_per_sample", &edge->bytes_per_sample);
    pst_codec_end(c);
}

static void code_edges(struct file *f)
{
    struct pst_codec *c = &f->codec;
    struct pst_plan *plan = f->plan;

    pst_codec_items(c, "edges", &plan->edges, &plan->n_edges, sizeof *plan->edges);
    for (uint32_t e = 0; e < plan->n_edges && pst_codec_is_sound(c); e++) {
        code_edge(f, e, &plan->edges[e]);
    }
    pst_codec_end(c);
    pst_codec_newline(c);
    pst_codec_items(c, "ties", &plan->ties, &plan->n_ties, sizeof *plan->ties);
    for (uint32_t t = 0; t < plan->n_ties && pst_codec_is_sound(c); t++) {
        pst_codec_newline(c);
        pst_codec_object(c, NULL);
        code_name(f, &f->params, "parameter", &plan->ties[t].parameter);
        pst_codec_uints(c, "stages", &plan->ties[t].stages, &plan->ties[t].n_stages);
        pst_codec_end(c);
    }
    pst_codec_end(c);
}

/* --- instruction lists -------------------------------------------------------------------------*/

/* One of the words for first ... end - 1. */
static void code_word(struct pst_codec *c, uint8_t *value, uint8_t first, uint8_t end,
                      const char *(*word_of)(uint32_t), const char *expected)
{
    const char *word = pst_codec_reads(c) ? NULL : word_of(*value);

    pst_codec_string(c, NULL, &word);
    if (pst_codec_reads(c) && word != NULL) {
        for (*value = first; *value < end && strcmp(word_of(*value), word) != 0;) {
            (*value)++;
        }
        if (*value == end) {
            pst_codec_fail(c, NULL, NULL, "%s", expected);
        }
    }
}

static void code_instr(struct file *f, struct pst_instr *instr)
{
    struct pst_codec *c = &f->codec;

    pst_codec_newline(c);
    pst_codec_array(c, NULL);
    code_word(c, &instr->op, 1, PST_I_COUNT, pst_instr_name,
              "expected [operation, ...] with a known operation");
    if (instr->op != PST_I_NORM) {
        pst_codec_uint(c, NULL, &instr->stage);
    }
    if (instr->op == PST_I_SEND || instr->op == PST_I_RECV) {
        code_word(c, &instr->payload, 0, PST_PAYLOAD_COUNT, pst_payload_name,
                  "the payload is \"act\", \"grad\", \"evict\" or \"load\"");
        pst_codec_uint(c, NULL, &instr->first_sample);
        pst_codec_uint(c, NULL, &instr->n_samples);
        pst_codec_uint(c, NULL, &instr->peer);
    } else if (instr->op < PST_I_SEND) {
        pst_codec_uint(c, NULL, &instr->microbatch);
    } else if (instr->op == PST_I_OFFLOAD || instr->op == PST_I_FETCH) {
        pst_codec_uint(c, NULL, &instr->microbatch);
        code_op(f, &instr->node);
    }
    if (pst_codec_has(c, NULL, instr->n_waits > 0)) {
        pst_codec_object(c, NULL);
        pst_codec_uints(c, "waits", &instr->waits, &instr->n_waits);
        if (instr->n_waits == 0) {
            pst_codec_fail(c, NULL, "waits", "empty; leave the object out");
        }
        pst_codec_end(c);
    }
    pst_codec_end(c);
}

static void code_list(struct file *f, const char *key, const struct pst_instr **list, uint32_t *n)
{
    struct pst_codec *c = &f->codec;
    struct pst_instr *instrs = pst_codec_items(c, key, list, n, sizeof *instrs);

    f->n_instrs += *n;
    if (pst_codec_reads(c) && f->n_instrs > MOST_INSTRS) {
        pst_codec_fail(c, "input.limit", NULL, "more than %u instructions", MOST_INSTRS);
    }
    for (uint32_t i = 0; i < *n && pst_codec_is_sound(c); i++) {
        code_instr(f, &instrs[i]);
    }
    pst_codec_end(c);
}

/* That of the plan where the device says nothing else. */
static void code_capacity(struct file *f, struct pst_plan_device *device, uint64_t bytes)
{
    struct pst_codec *c = &f->codec;

    if (!pst_codec_has(c, "capacity_bytes", device->lacks_bytes > 0)) {
        return;
    }
    pst_codec_bytes(c, "capacity_bytes", &bytes);
    if (bytes > f->plan->capacity_bytes) {
        pst_codec_fail(c, NULL, NULL, "a device has more than the capacity_bytes of provenance");
    } else {
        device->lacks_bytes = f->plan->capacity_bytes - bytes;
    }
}

static void code_device(struct file *f, uint32_t rank)
{
    struct pst_codec *c = &f->codec;
    struct pst_plan_device *device = &f->plan->devices[rank];

    pst_codec_newline(c);
    pst_codec_object(c, NULL);
    pst_codec_position(c, "rank", rank);
    code_list(f, "fill", &device->fill, &device->n_fill);
    code_list(f, "body", &device->body, &device->n_instrs);
    code_list(f, "drain", &device->drain, &device->n_drain);
    pst_codec_bytes(c, "peak_bytes", &device->peak_bytes);
    pst_codec_bytes(c, "arena_bytes", &device->arena_bytes);
    code_capacity(f, device, pst_plan_capacity(f->plan, rank));
    if (pst_codec_has(c, "kind", device->kind != NULL)) {
        pst_codec_text(c, "kind", &device->kind);
    }
    if (pst_codec_has(c, "host_bytes", device->host_bytes > 0)) {
        pst_codec_bytes(c, "host_bytes", &device->host_bytes);
    }
    if (pst_codec_reads(c) && !f->plan->asynchronous &&
        device->n_fill + (uint64_t)device->n_drain > 0) {
        pst_codec_fail(c, "input.unsupported", NULL,
                       "fill and drain of a synchronous plan are empty");
    }
    pst_codec_end(c);
}

/* --- the file ----------------------------------------------------------------------------------*/

/* A plan of as many devices as the file has, which its first allocation depends on. */
static void create(struct file *f, json_t *root)
{
    struct pst_codec *c = &f->codec;
    size_t n = json_array_size(json_object_get(root, "devices"));
    size_t n_stages = json_array_size(json_object_get(root, "stages"));
    uint32_t batch = 0;

    pst_codec_uint(c, "batch", &batch);
    if (n == 0 || n_stages == 0) {
        pst_codec_fail(c, NULL, NULL, "no devices or no stages");
    } else if (n > MOST_DEVICES || n_stages > MOST_STAGES) {
        pst_codec_fail(c, "input.limit", NULL, "%zu devices, %zu stages; at most %u and %u", n,
                       n_stages, MOST_DEVICES, MOST_STAGES);
    }
    if (pst_codec_is_sound(c)) {
        pst_plan_create(f->graph, batch, (uint32_t)n, &f->plan);
        c->arena = &f->plan->arena;
        f->stated = pst_arena_array(c->arena, 1, sizeof *f->stated);
        f->stated->stage_peaks = pst_arena_array(c->arena, n_stages, sizeof(uint64_t));
        f->plan->stated = f->stated;
    }
}

/* Left out where samples are whole sequences. */
static void code_slices(struct file *f)
{
    struct pst_codec *c = &f->codec;
    uint32_t slices = f->plan->slices;

    if (pst_codec_has(c, "slices", slices > 1)) {
        pst_codec_uint(c, "slices", &slices);
    } else {
        slices = 1;
    }
    if (slices != f->plan->slices) {
        pst_codec_fail(c, NULL, "slices", "%u, the model has %u", slices, f->plan->slices);
    }
}

/* All behind the format. What is read: `text`, of that length. */
static void code_plan(struct file *f, const char *text, size_t length)
{
    struct pst_codec *c = &f->codec;
    uint32_t n_stages;

    pst_codec_newline(c);
    code_provenance(f, text, length);
    pst_codec_newline(c);
    if (!pst_codec_reads(c)) {
        pst_codec_uint(c, "batch", &f->plan->batch);
    }
    code_slices(f);
    code_mode(f);
    code_parallel(f);
    pst_codec_newline(c);
    n_stages = pst_codec_array(c, "stages");
    n_stages = pst_codec_reads(c) ? n_stages : f->plan->n_stages;
    for (uint32_t s = 0; s < n_stages && pst_codec_is_sound(c); s++) {
        code_stage(f, s);
    }
    pst_codec_end(c);
    if (pst_codec_is_sound(c) && f->version != version_of(f->plan)) {
        pst_codec_fail(c, "input.unsupported", NULL,
                       "version %u, expected version %u: files with parallel or tensor have 2, all "
                       "others 1",
                       f->version, version_of(f->plan));
    }
    pst_codec_newline(c);
    code_edges(f);
    pst_codec_newline(c);
    pst_codec_array(c, "devices");
    for (uint32_t d = 0; d < f->plan->n_devices && pst_codec_is_sound(c); d++) {
        code_device(f, d);
    }
    pst_codec_end(c);
    pst_codec_newline(c);
    code_predicted(f);
}

char *pst_plan_to_json(const struct pst_plan *plan, const struct pst_graph *graph)
{
    struct pst_json json;
    /* nothing is written to the plan of a codec that writes */
    struct file f = {.codec = {.out = &json}, .plan = (struct pst_plan *)(uintptr_t)plan};

    name_all(&f, graph);
    pst_json_init(&json);
    pst_codec_object(&f.codec, NULL);
    code_format(&f);
    code_plan(&f, NULL, 0);
    pst_codec_end(&f.codec);
    pst_codec_newline(&f.codec);
    return pst_json_take(&json);
}

pst_status pst_plan_parse(const char *name, const char *text, size_t length,
                          const struct pst_graph *graph, struct pst_plan **ret_plan,
                          struct pst_error *err)
{
    struct pst_fields fields = {.path = name, .err = err};
    struct file f = {.codec = {.in = &fields}};

    name_all(&f, graph);
    fields.status = pst_json_parse(name, text, length, &f.codec.root, err);
    if (fields.status == PST_OK) {
        pst_codec_object(&f.codec, NULL);
        code_format(&f);
    }
    if (fields.status == PST_OK) {
        create(&f, f.codec.root);
    }
    if (fields.status == PST_OK) {
        code_plan(&f, text, length);
        pst_codec_end(&f.codec);
    }
    json_decref(f.codec.root);
    if (fields.status != PST_OK) {
        pst_plan_destroy(f.plan);
        return fields.status;
    }
    *ret_plan = f.plan;
    return PST_OK;
}

pst_status pst_plan_write(const struct pst_plan *plan, const struct pst_graph *graph,
                          const char *path, struct pst_error *err)
{
    char *text = pst_plan_to_json(plan, graph);
    pst_status status = pst_file_write(path, text, strlen(text), err);

    free(text);
    return status;
}

pst_status pst_plan_read(const char *path, const struct pst_graph *graph,
                         struct pst_plan **ret_plan, struct pst_error *err)
{
    char *text = NULL;
    size_t length = 0;
    pst_status status;

    pst_doing("reading the plan", path);
    status = pst_file_read(path, PST_PLAN_FILE_BYTES, "input.path", &text, &length, err);
    PST_TRY(status, pst_plan_parse(path, text, length, graph, ret_plan, err));
    free(text);
    return status;
}

pst_status pst_plan_read_config(const char *path, char **ret_config_json, struct pst_error *err)
{
    char *text = NULL;
    const char *at = NULL;
    size_t length = 0, n;
    json_t *config = NULL;
    pst_status status = pst_file_read(path, PST_PLAN_FILE_BYTES, "input.path", &text, &length, err);

    if (status != PST_OK) {
        return status;
    }
    n = pst_json_find(text, length, "provenance", "config", &at);
    if (n == 0 || *at != '{') {
        status =
            pst_fail_at(err, PST_ERR_CONFIG, "input.syntax", path, 0, 0,
                        "provenance.config: no object, so the model cannot be rebuilt; is this a "
                        "plan file?");
    } else {
        status = pst_json_parse(path, at, n, &config, err);
    }
    if (status == PST_OK) {
        *ret_config_json = pst_strndup(at, n);
    }
    json_decref(config);
    free(text);
    return status;
}
