/* SPDX-License-Identifier: Apache-2.0
 *
 * From an operation graph to a plan: the library's heuristics propose configurations of engines,
 * best first, or such as are sure to work. Those that break a rule are dropped; the first of the
 * others says how much workspace there will be, and the first that can be compiled and needs no
 * more is taken.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "dnn_library.h"

enum { MOST_CONFIGS = 24 }; /* that are asked for in each mode */

struct pst_dnn_plan {
    struct pst_dnn_maker maker;
    struct pst_dnn_graph graph;
    cudnnBackendDescriptor_t configs[MOST_CONFIGS]; /* that keep the rules */
    uint32_t n_configs;
    cudnnBackendDescriptor_t plan; /* NULL: not yet compiled */
    uint64_t bytes;
};

static const struct {
    cudnnBackendNumericalNote_t note;
    const char *name;
} notes[] = {
    {CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC, "sums without order"},
    {CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION, "short sums"},
    {CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS, "shortened inputs"},
    {CUDNN_NUMERICAL_NOTE_FFT, "Fourier transforms"},
    {CUDNN_NUMERICAL_NOTE_WINOGRAD, "Winograd's transforms"},
    {CUDNN_NUMERICAL_NOTE_TENSOR_CORE, "tensor cores for f32"},
};

/* Returns true if the rule of this note does not apply to the graph. */
static bool waived(const struct pst_dnn_graph *graph, cudnnBackendNumericalNote_t note)
{
    switch (note) {
    case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:
        return !graph->ordered;
    case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
        return graph->tf32 || graph->tensors[graph->ops[0].x].type == PST_DNN_BF16;
    case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
        return graph->tf32;
    default:
        return false;
    }
}

/* Returns why an engine is not used; NULL: it may be. */
static const char *refused(struct pst_dnn_plan *p, cudnnBackendDescriptor_t config)
{
    const struct pst_dnn_functions *call = &p->maker.dnn->call;
    const uint32_t before = p->maker.n;
    cudnnBackendDescriptor_t engine =
        pst_dnn_make(&p->maker, CUDNN_BACKEND_ENGINE_DESCRIPTOR, "an engine");
    cudnnBackendNumericalNote_t found[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    const char *why = NULL;
    int64_t n = 0;

    if (engine == NULL ||
        call->BackendGetAttribute(config, CUDNN_ATTR_ENGINECFG_ENGINE,
                                  CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &n,
                                  &engine) != CUDNN_STATUS_SUCCESS ||
        call->BackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                  CUDNN_TYPE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &n,
                                  found) != CUDNN_STATUS_SUCCESS ||
        n > CUDNN_NUMERICAL_NOTE_TYPE_COUNT) { /* it knows notes that this build does not */
        why = "nothing known about it";
    }
    for (size_t rule = 0; why == NULL && rule < sizeof notes / sizeof notes[0]; rule++) {
        if (waived(&p->graph, notes[rule].note)) {
            continue;
        }
        for (int64_t i = 0; i < n; i++) {
            why = found[i] == notes[rule].note ? notes[rule].name : why;
        }
    }
    pst_dnn_unmake(&p->maker, before);
    return why;
}

/* Bytes of workspace that a configuration or a plan says; false: it does not. */
static bool bytes_of(const struct pst_dnn_plan *p, cudnnBackendDescriptor_t descriptor,
                     cudnnBackendAttributeName_t name, uint64_t *ret_bytes)
{
    int64_t bytes = -1, n = 0;

    if (p->maker.dnn->call.BackendGetAttribute(descriptor, name, CUDNN_TYPE_INT64, 1, &n, &bytes) !=
            CUDNN_STATUS_SUCCESS ||
        bytes < 0) {
        return false;
    }
    *ret_bytes = (uint64_t)bytes;
    return true;
}

/* Asks for configurations in one mode, for so many multiprocessors (0: all), and keeps what keeps
   the rules. */
static bool propose(struct pst_dnn_plan *p, cudnnBackendDescriptor_t graph,
                    cudnnBackendHeurMode_t mode, int32_t sms, char *why, size_t why_size)
{
    struct pst_dnn_maker *m = &p->maker;
    const struct pst_dnn *dnn = m->dnn;
    const uint32_t before = m->n;
    cudnnBackendDescriptor_t configs[MOST_CONFIGS];
    cudnnBackendDescriptor_t heur =
        pst_dnn_make(m, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, "the choice of kernels");
    int64_t n = 0;

    pst_dnn_set_one(m, heur, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    pst_dnn_set(m, heur, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    if (dnn->properties != NULL) {
        pst_dnn_set_one(m, heur, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, dnn->properties);
    }
    if (sms > 0) {
        pst_dnn_set(m, heur, CUDNN_ATTR_ENGINEHEUR_SM_COUNT_TARGET, CUDNN_TYPE_INT32, 1, &sms);
    }
    pst_dnn_finalize(m, heur);
    for (uint32_t i = 0; i < MOST_CONFIGS; i++) {
        configs[i] = pst_dnn_make(m, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, "the choice of kernels");
    }
    if (m->status == CUDNN_STATUS_SUCCESS) {
        m->status =
            dnn->call.BackendGetAttribute(heur, CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                          CUDNN_TYPE_BACKEND_DESCRIPTOR, MOST_CONFIGS, &n, configs);
    }
    if (m->status != CUDNN_STATUS_SUCCESS) {
        pst_dnn_why(m, why, why_size);
        m->status = CUDNN_STATUS_SUCCESS; /* the other mode may do */
        n = 0;
    }
    for (int64_t i = 0; i < n && i < MOST_CONFIGS; i++) {
        const char *rule = refused(p, configs[i]);

        if (rule != NULL) {
            snprintf(why, why_size, "cuDNN has only kernels that are not allowed: %s", rule);
        } else if (p->n_configs > 0 ||
                   bytes_of(p, configs[i], CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE, &p->bytes)) {
            p->configs[p->n_configs++] = configs[i];
        }
    }
    if (p->n_configs == 0) {
        pst_dnn_unmake(m, before);
    }
    return p->n_configs > 0;
}

struct pst_dnn_plan *pst_dnn_plan_create(struct pst_dnn *dnn, const struct pst_dnn_graph *graph,
                                         char *ret_why, size_t why_size)
{
    struct pst_dnn_plan *p = pst_alloc(1, sizeof *p);
    cudnnBackendDescriptor_t described;

    p->maker.dnn = dnn;
    memcpy(&p->graph, graph, sizeof p->graph);
    snprintf(ret_why, why_size, "cuDNN proposes no kernel");
    described = pst_dnn_describe_graph(&p->maker, &p->graph);
    if (p->maker.status != CUDNN_STATUS_SUCCESS) {
        pst_dnn_why(&p->maker, ret_why, why_size);
    } else if ((dnn->sms > 0 && propose(p, described, CUDNN_HEUR_MODE_A, (int32_t)dnn->sms, ret_why,
                                        why_size)) || /* many engines know no parts */
               propose(p, described, CUDNN_HEUR_MODE_A, 0, ret_why, why_size) ||
               propose(p, described, CUDNN_HEUR_MODE_FALLBACK, 0, ret_why, why_size)) {
        return p;
    }
    pst_dnn_plan_destroy(p);
    return NULL;
}

bool pst_dnn_plan_compile(struct pst_dnn_plan *p, char *ret_why, size_t why_size)
{
    struct pst_dnn_maker *m = &p->maker;
    const struct pst_dnn *dnn = m->dnn;
    const uint32_t before = m->n;

    for (uint32_t i = 0; p->plan == NULL && i < p->n_configs; i++) {
        cudnnBackendDescriptor_t plan =
            pst_dnn_make(m, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, "a plan");
        uint64_t bytes = 0;

        pst_dnn_set_one(m, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, p->configs[i]);
        if (dnn->handle != NULL) {
            pst_dnn_set(m, plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1,
                        &dnn->handle);
        } else {
            pst_dnn_set_one(m, plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, dnn->properties);
        }
        pst_dnn_finalize(m, plan);
        if (m->status != CUDNN_STATUS_SUCCESS) {
            pst_dnn_why(m, ret_why, why_size);
        } else if (bytes_of(p, plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, &bytes) &&
                   bytes <= p->bytes) {
            p->plan = plan;
            break;
        } else {
            snprintf(ret_why, why_size, "cuDNN needs %llu bytes of workspace, not %llu",
                     (unsigned long long)bytes, (unsigned long long)p->bytes);
        }
        pst_dnn_unmake(m, before);
        m->status = CUDNN_STATUS_SUCCESS; /* the next one may do */
    }
    return p->plan != NULL;
}

void pst_dnn_plan_destroy(struct pst_dnn_plan *plan)
{
    if (plan != NULL) {
        pst_dnn_unmake(&plan->maker, 0);
        free(plan);
    }
}

uint64_t pst_dnn_plan_bytes(const struct pst_dnn_plan *plan)
{
    return plan->bytes;
}

const char *pst_dnn_plan_run(const struct pst_dnn_plan *plan, void *const operands[PST_DNN_ROLES],
                             void *workspace)
{
    struct pst_dnn_maker maker = {.dnn = plan->maker.dnn};
    cudnnBackendDescriptor_t pack =
        pst_dnn_make(&maker, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, "operands");
    struct pst_dnn_graph *graph = (struct pst_dnn_graph *)(uintptr_t)&plan->graph;
    int64_t ids[PST_DNN_TENSORS], n = 0;
    void *places[PST_DNN_TENSORS];

    for (uint32_t role = 0; role < PST_DNN_ROLES; role++) {
        if (graph->of_role[role] != PST_DNN_NONE) {
            ids[n] = graph->of_role[role] + 1;
            places[n++] = operands[role];
        }
    }
    for (uint32_t i = 0; i < graph->n_tensors; i++) {
        if (graph->tensors[i].place == PST_DNN_VALUE) {
            ids[n] = i + 1;
            places[n++] = &graph->tensors[i].value;
        }
    }
    pst_dnn_set(&maker, pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, n, ids);
    pst_dnn_set(&maker, pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, n,
                places);
    pst_dnn_set(&maker, pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1,
                &workspace);
    pst_dnn_finalize(&maker, pack);
    if (maker.status == CUDNN_STATUS_SUCCESS) {
        maker.status = maker.dnn->call.BackendExecute(maker.dnn->handle, plan->plan, pack);
    }
    pst_dnn_unmake(&maker, 0);
    return maker.status == CUDNN_STATUS_SUCCESS ? NULL
                                                : maker.dnn->call.GetErrorString(maker.status);
}
