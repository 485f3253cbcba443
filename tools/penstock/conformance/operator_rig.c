/* SPDX-License-Identifier: Apache-2.0 */
#include "conformance/operator_rig.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bf16.h"
#include "base/memory.h"
#include "base/util.h"
#include "conformance/problem.h"
#include "conformance/verdict.h"
#include "device/cpu/guard_page_arena.h"
#include "models/plugin/operators.h"

enum { THREADS = 3, UNWRITTEN = 0xFF, UNWRITTEN_TOO = 0x5A };

static char fault[256]; /* of the last call */

/* --- blocks ------------------------------------------------------------------------------------*/

static void make_block(struct pst_operand_block *block, uint32_t dtype, uint64_t elems)
{
    struct pst_error err = {0};

    block->dtype = dtype;
    block->elems = elems;
    block->bytes = elems * pst_dtype_bytes(dtype);
    if (block->bytes > 0) {
        block->memory = pst_alloc(1, sizeof *block->memory);
        if (pst_guarded_init(block->memory, block->bytes, &err) != PST_OK) {
            pst_verdict_skip("%s", err.message);
        }
        block->base = block->memory->base;
    }
    block->before = pst_alloc(block->bytes + 1, 1);
}

static uint64_t elems_of(const struct pst_operand *operand)
{
    uint64_t elems = 1;

    for (uint32_t i = 0; i < operand->rank; i++) {
        elems *= operand->dims[i];
    }
    return elems;
}

static void make_like(struct pst_operand_block *block, const struct pst_operand *operand,
                      uint64_t samples)
{
    make_block(block, operand->dtype, elems_of(operand) * samples);
}

static void finish_block(struct pst_operand_block *block)
{
    if (block->memory != NULL) {
        pst_guarded_finish(block->memory);
        free(block->memory);
    }
    free(block->before);
    memset(block, 0, sizeof *block);
}

double pst_operand_get(const struct pst_operand_block *block, uint64_t i)
{
    const void *base = block->base;

    return block->dtype == PST_F64    ? ((const double *)base)[i]
           : block->dtype == PST_BF16 ? (double)pst_bf16_load(((const uint16_t *)base)[i])
           : block->dtype == PST_I32  ? (double)((const int32_t *)base)[i]
                                      : (double)((const float *)base)[i];
}

void pst_operand_put(struct pst_operand_block *block, uint64_t i, double value)
{
    void *base = block->base;

    if (block->dtype == PST_F64) {
        ((double *)base)[i] = value;
    } else if (block->dtype == PST_BF16) {
        ((uint16_t *)base)[i] = pst_bf16_round((float)value);
    } else if (block->dtype == PST_I32) {
        ((int32_t *)base)[i] = (int32_t)value;
    } else {
        ((float *)base)[i] = (float)value;
    }
}

/* Element i of the run has its value, whichever rig has it. */
static void fill(struct pst_operand_block *block, const struct pst_operator_rig *rig,
                 uint32_t stream, uint64_t first, double low, double high)
{
    for (uint64_t i = 0; i < block->elems; i++) {
        uint64_t state = (rig->seed * 64 + stream) * 1000003u + first + i;
        double unit;

        pst_random(&state);
        unit = (double)(pst_random(&state) >> 11) * 0x1p-53;
        pst_operand_put(block, i, low + (high - low) * unit);
    }
}

/* --- parallel() --------------------------------------------------------------------------------*/

struct part {
    void (*work)(void *context, uint64_t begin, uint64_t end);
    void *context;
    uint64_t begin, end;
};

static void *work_part(void *part_)
{
    const struct part *part = part_;

    if (part->begin < part->end) {
        part->work(part->context, part->begin, part->end);
    }
    return NULL;
}

static void split_threads(uint64_t n, void (*work)(void *context, uint64_t begin, uint64_t end),
                          void *context)
{
    struct part parts[THREADS];
    pthread_t threads[THREADS];

    for (uint64_t t = 0; t < THREADS; t++) {
        parts[t] = (struct part){work, context, n * t / THREADS, n * (t + 1) / THREADS};
        if (pthread_create(&threads[t], NULL, work_part, &parts[t]) != 0) {
            pst_verdict_skip("no thread could be started");
        }
    }
    for (uint32_t t = 0; t < THREADS; t++) {
        pthread_join(threads[t], NULL);
    }
}

static void parallel(const struct pst_operator_call *call, uint64_t n,
                     void (*work)(void *context, uint64_t begin, uint64_t end), void *context)
{
    const struct pst_operator_rig *rig = call->impl;

    if (rig->split == PST_SPLIT_THREADS) {
        split_threads(n, work, context);
    } else if (rig->split == PST_SPLIT_NONE && n > 0) {
        work(context, 0, n);
    } else {
        for (uint64_t i = n; i-- > 0;) {
            work(context, i, i + 1);
        }
    }
}

/* --- one call ----------------------------------------------------------------------------------*/

/* The operands of a call, and what may be done with each. */
struct operands {
    struct {
        const char *name;
        uint32_t number;
        struct pst_operand_block *block;
        bool writes;
    } at[32];
    uint32_t n;
    void *x[PST_OPERATOR_MAX_X], *dx[PST_OPERATOR_MAX_X], *p[PST_OPERATOR_MAX_P];
    void *dp[PST_OPERATOR_MAX_P], *y[PST_OPERATOR_MAX_Y], *z[PST_OPERATOR_MAX_Z];
};

static void *give(struct operands *o, const char *name, uint32_t number,
                  struct pst_operand_block *block, bool given, bool writes)
{
    if (!given || block->bytes == 0) {
        return NULL;
    }
    if (writes) {
        memset(block->base, UNWRITTEN, block->bytes);
    }
    memcpy(block->before, block->base, block->bytes);
    o->at[o->n].name = name;
    o->at[o->n].number = number;
    o->at[o->n].block = block;
    o->at[o->n++].writes = writes;
    return block->base;
}

static void list_operands(struct pst_operator_rig *rig, uint32_t pass, struct operands *o)
{
    const struct pst_operator_row *row = &rig->custom->row;
    const struct pst_operator_question *q = &rig->custom->question;
    const bool f = pass == PST_OPERATOR_F, b = pass == PST_OPERATOR_B;
    const uint64_t x = f ? UINT64_MAX : b ? row->b_reads_x : row->w_reads_x;
    const uint32_t p = f ? UINT32_MAX : b ? row->b_reads_p : row->w_reads_p;
    const uint32_t y = f ? UINT32_MAX : b ? row->b_reads_y : row->w_reads_y;

    memset(o, 0, sizeof *o);
    for (uint32_t i = 0; i < q->n_x; i++) {
        o->x[i] = give(o, "x", i, &rig->x[i], (x >> i & 1) != 0, false);
        o->dx[i] = give(o, "dx", i, &rig->dx[i], b && (rig->without_dx >> i & 1) == 0, true);
    }
    for (uint32_t i = 0; i < q->n_p; i++) {
        o->p[i] = give(o, "p", i, &rig->p[i], (p >> i & 1) != 0, false);
        o->dp[i] = give(o, "dp", i, &rig->dp[i], !f && !b, true);
    }
    for (uint32_t i = 0; i < row->n_y; i++) {
        o->y[i] = give(o, "y", i, &rig->y[i], (y >> i & 1) != 0, f);
    }
    for (uint32_t i = 0; i < row->n_z; i++) {
        o->z[i] = give(o, "z", i, &rig->z[i], !f, b);
    }
}

static bool is_filled(const unsigned char *at, uint32_t size, unsigned char value)
{
    for (uint32_t k = 0; k < size; k++) {
        if (at[k] != value) {
            return false;
        }
    }
    return true;
}

/* Is the element as nobody wrote it? An integer may be -1 in earnest, so that both calls count. */
static bool is_unwritten(const struct pst_operand_block *block, uint64_t i)
{
    const uint32_t size = pst_dtype_bytes(block->dtype);

    return block->dtype == PST_I32 ? is_filled(block->before + i * size, size, UNWRITTEN) &&
                                         is_filled(block->base + i * size, size, UNWRITTEN_TOO)
                                   : is_filled(block->base + i * size, size, UNWRITTEN);
}

static bool is_clean_around(const struct pst_operand_block *block)
{
    const unsigned char *at = block->memory->mapping, *base = block->base;
    const unsigned char *end = base + block->bytes + PST_GUARDED_ALIGN;
    const uint64_t page = 4096; /* the end lies in the last accessible one */
    const unsigned char *last =
        (const unsigned char *)(((uintptr_t)base + block->bytes + page - 1) / page * page);

    for (; at < base; at++) {
        if (*at != UNWRITTEN) {
            return false;
        }
    }
    for (at = base + block->bytes; at < last && at < end; at++) {
        if (*at != UNWRITTEN) {
            return false;
        }
    }
    return true;
}

static void check_block(const char *name, uint32_t number, const struct pst_operand_block *block,
                        bool writes, char pass)
{
    uint64_t missing = 0;

    if (!is_clean_around(block)) {
        snprintf(fault, sizeof fault, "%c writes outside of %s[%u]", pass, name, number);
    } else if (!writes && memcmp(block->before, block->base, block->bytes) != 0) {
        snprintf(fault, sizeof fault, "%c writes to %s[%u], which it may only read", pass, name,
                 number);
    }
    for (uint64_t i = 0; writes && i < block->elems; i++) {
        missing += is_unwritten(block, i);
    }
    if (missing > 0) {
        snprintf(fault, sizeof fault, "%c leaves %llu of %llu elements of %s[%u] unwritten", pass,
                 (unsigned long long)missing, (unsigned long long)block->elems, name, number);
    }
}

/* As large as the kernel says, before each call as nobody wrote it. */
static void *renew_workspace(struct pst_operator_rig *rig, uint32_t pass)
{
    const struct pst_custom *custom = rig->custom;
    const uint64_t bytes = PST_CAN(rig->kernels, workspace)
                               ? rig->kernels->workspace(custom->self, &custom->question,
                                                         &custom->row, pass, rig->samples)
                               : 0;

    finish_block(&rig->workspace);
    if (bytes > PST_CUSTOM_MAX_WORKSPACE) {
        pst_verdict_fail("workspace() returned more than 2^48 bytes");
    }
    make_block(&rig->workspace, PST_F32, (bytes + 3) / 4);
    return rig->workspace.base;
}

/* Keeps integers that were written, and makes them otherwise unwritten. False: there are none. */
static bool renew_integers(struct operands *o)
{
    bool any = false;

    for (uint32_t i = 0; i < o->n; i++) {
        struct pst_operand_block *block = o->at[i].block;

        if (o->at[i].writes && block->dtype == PST_I32) {
            memcpy(block->before, block->base, block->bytes);
            memset(block->base, UNWRITTEN_TOO, block->bytes);
            any = true;
        }
    }
    return any;
}

const char *pst_operator_rig_run(struct pst_operator_rig *rig, uint32_t pass)
{
    const struct pst_custom *custom = rig->custom;
    const char letter = "FBW"[pass];
    struct operands o;
    struct {
        struct pst_operator_call known;
        unsigned char later[PST_OPERATOR_WIDER];
    } wide = {.known = {
                  .size = (uint32_t)sizeof wide.known + rig->instance->wider,
                  .pass = pass,
                  .samples = rig->samples,
                  .flags = rig->flags,
                  .question = &custom->question,
                  .row = &custom->row,
                  .first_sample = rig->first_sample,
                  .impl = rig,
                  .parallel = parallel,
              }};
    struct pst_operator_call *call = &wide.known;

    list_operands(rig, pass, &o);
    call->x = (const void *const *)o.x;
    call->p = (const void *const *)o.p;
    call->y = o.y;
    call->dx = o.dx;
    call->z = o.z;
    call->dp = o.dp;
    call->dy = give(
        &o, "dy", 0, &rig->dy,
        pass == PST_OPERATOR_B || (pass == PST_OPERATOR_W && custom->row.w_reads_dy != 0), false);
    fault[0] = '\0';
    pst_instance_enter(rig->instance, PST_CRUMB_KERNEL);
    call->workspace = renew_workspace(rig, pass);
    rig->kernels->run(custom->self, call);
    if (renew_integers(&o)) {
        call->workspace = renew_workspace(rig, pass);
        rig->kernels->run(custom->self, call);
    }
    pst_instance_leave(rig->instance);
    for (uint32_t i = 0; i < o.n; i++) {
        check_block(o.at[i].name, o.at[i].number, o.at[i].block, o.at[i].writes, letter);
    }
    if (rig->workspace.bytes > 0 && !is_clean_around(&rig->workspace)) {
        snprintf(fault, sizeof fault, "%c writes outside of its workspace", letter);
    }
    return fault;
}

const char *pst_operator_rig_run_all(struct pst_operator_rig *rig)
{
    const struct pst_operator_question *q = &rig->custom->question;
    bool wants_dx = false;

    for (uint32_t i = 0; i < q->n_x; i++) {
        wants_dx = wants_dx || (rig->dx[i].bytes > 0 && (rig->without_dx >> i & 1) == 0);
    }
    if (pst_operator_rig_run(rig, PST_OPERATOR_F)[0] != '\0') {
        return fault;
    }
    if ((wants_dx || rig->custom->row.n_z > 0) &&
        pst_operator_rig_run(rig, PST_OPERATOR_B)[0] != '\0') {
        return fault;
    }
    return q->n_p > 0 ? pst_operator_rig_run(rig, PST_OPERATOR_W) : fault;
}

/* --- the whole ---------------------------------------------------------------------------------*/

/* A draft with the operator: the graph checks the row. */
static pst_status describe(struct pst_operator_rig *rig, struct pst_error *err)
{
    const struct pst_operator_example *e = &rig->example;
    uint32_t in[PST_OPERATOR_MAX_X], param[PST_OPERATOR_MAX_P];
    struct pst_op op = {.kind = PST_OP_CUSTOM, .name = "op", .n_in = e->n_x, .n_param = e->n_p};
    char name[16];

    op.in = in;
    op.param = param;
    if (pst_graph_builder_create("check", rig->dtype, &rig->builder, err) != PST_OK) {
        return err->status;
    }
    for (uint32_t i = 0; i < e->n_x; i++) {
        snprintf(name, sizeof name, "x%u", i);
        in[i] = pst_graph_input(rig->builder, name, PST_FIELD_X, e->x[i].dtype, e->x[i].rank,
                                e->x[i].dims);
    }
    for (uint32_t i = 0; i < e->n_p; i++) {
        snprintf(name, sizeof name, "p%u", i);
        param[i] = pst_graph_param(rig->builder, name, e->p[i].rank, e->p[i].dims, PST_INIT_ZERO, 0,
                                   false);
    }
    op.custom = rig->custom = pst_custom_of(rig->instance, "", false);
    pst_graph_add(rig->builder, &op);
    return pst_graph_failure(rig->builder, err);
}

static void make_blocks(struct pst_operator_rig *rig)
{
    const struct pst_operator_question *q = &rig->custom->question;
    const struct pst_operator_row *row = &rig->custom->row;
    const struct pst_operator_example *e = &rig->example;
    const uint64_t first = rig->first_sample;

    for (uint32_t i = 0; i < q->n_x; i++) {
        const bool whole = q->x[i].dtype == PST_I32;

        make_like(&rig->x[i], &q->x[i], rig->samples);
        fill(&rig->x[i], rig, i, first * elems_of(&q->x[i]), whole ? 0 : e->low,
             whole ? e->below[i] : e->high);
        make_block(&rig->dx[i], q->x[i].dtype, whole ? 0 : rig->x[i].elems);
    }
    for (uint32_t i = 0; i < q->n_p; i++) {
        make_like(&rig->p[i], &q->p[i], 1);
        fill(&rig->p[i], rig, 16 + i, 0, e->low, e->high);
        make_block(&rig->dp[i], rig->dtype == PST_F64 ? PST_F64 : PST_F32, rig->p[i].elems);
    }
    for (uint32_t i = 0; i < row->n_y; i++) {
        make_like(&rig->y[i], &row->y[i], rig->samples);
    }
    for (uint32_t i = 0; i < row->n_z; i++) {
        make_like(&rig->z[i], &row->z[i], (row->z_once >> i & 1) != 0 ? 1 : rig->samples);
    }
    make_like(&rig->dy, &row->y[0], rig->samples);
    fill(&rig->dy, rig, 32, first * elems_of(&row->y[0]), -1, 1);
}

static pst_status ask_example(struct pst_operator_rig *rig, uint32_t example, bool *ret_more,
                              struct pst_error *err)
{
    struct pst_instance *instance = rig->instance;
    const struct pst_operator *f = instance->plugin->get_interface(PST_OPERATOR);
    struct pst_operator_example *e = &rig->example;
    struct {
        struct pst_operator_example known;
        unsigned char later[PST_OPERATOR_WIDER];
    } wide = {.known.size = (uint32_t)sizeof wide.known + instance->wider};
    pst_status status;

    pst_instance_enter(instance, PST_CRUMB_EXAMPLE);
    status = f->example(instance->self, example, rig->dtype, &wide.known);
    pst_instance_leave(instance);
    *e = wide.known;
    e->size -= instance->wider;
    *ret_more = status == PST_OK;
    if (status == PST_OK && (e->size != sizeof *e || e->n_x < 1 || e->n_x > PST_OPERATOR_MAX_X ||
                             e->n_p > PST_OPERATOR_MAX_P || !(e->low < e->high))) {
        return pst_fail(err, PST_ERR_BUG, "plugin.contract",
                        "example %u must have 1 to %d inputs, up to %d parameters and low < high",
                        example, PST_OPERATOR_MAX_X, PST_OPERATOR_MAX_P);
    }
    return status == PST_OK || (status == PST_ERR_UNSUPPORTED && example > 0)
               ? PST_OK
               : pst_instance_fail(instance, status, "example", err);
}

pst_status pst_operator_rig_init(struct pst_operator_rig *rig, struct pst_instance *instance,
                                 uint32_t example, uint32_t dtype, uint32_t samples,
                                 uint64_t first_sample, uint64_t seed, bool *ret_more,
                                 struct pst_error *err)
{
    pst_status status;

    memset(rig, 0, sizeof *rig);
    rig->instance = instance;
    rig->number = example;
    rig->dtype = dtype;
    rig->samples = samples;
    rig->flags = PST_OPERATOR_TRAINING;
    rig->first_sample = first_sample;
    rig->seed = seed;
    status = ask_example(rig, example, ret_more, err);
    if (status != PST_OK || !*ret_more) {
        return status;
    }
    status = describe(rig, err);
    if (status != PST_OK) {
        pst_graph_builder_destroy(rig->builder);
        return status;
    }
    rig->kernels = pst_custom_kernels(rig->custom, "cpu", dtype);
    make_blocks(rig);
    return PST_OK;
}

void pst_operator_rig_finish(struct pst_operator_rig *rig)
{
    for (uint32_t i = 0; i < PST_OPERATOR_MAX_X; i++) {
        finish_block(&rig->x[i]);
        finish_block(&rig->dx[i]);
    }
    for (uint32_t i = 0; i < PST_OPERATOR_MAX_P; i++) {
        finish_block(&rig->p[i]);
        finish_block(&rig->dp[i]);
    }
    for (uint32_t i = 0; i < PST_OPERATOR_MAX_Y; i++) {
        finish_block(&rig->y[i]);
    }
    for (uint32_t i = 0; i < PST_OPERATOR_MAX_Z; i++) {
        finish_block(&rig->z[i]);
    }
    finish_block(&rig->dy);
    finish_block(&rig->workspace);
    pst_graph_builder_destroy(rig->builder);
}
