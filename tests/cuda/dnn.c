/* SPDX-License-Identifier: Apache-2.0
 *
 * cuDNN as far as the device module calls it, on the host: plans are interpreted. Like the library
 * it takes a workspace of which nothing is left behind. ON_HOST_DNN=absent: it is not there;
 * choosy: it serves nothing; broken: it asks for much, and compiles nothing; tight: it asks for
 * little, and compiles nothing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/cuda/dnn_plan.h"
#include "faults.h"
#include "interpreter.h"
#include "streams.h"

#define BYTES 4000u /* no multiple of anything that pieces are aligned to */

static bool is(const char *word)
{
    const char *how = getenv("ON_HOST_DNN");

    return how != NULL && strcmp(how, word) == 0;
}

struct pst_dnn {
    cudaStream_t stream;
};

struct pst_dnn_plan {
    const struct pst_dnn *dnn;
    struct pst_dnn_graph graph;
    bool compiled;
};

void pst_dnn_describe(char *ret_text, size_t text_size)
{
    snprintf(ret_text, text_size, "cuDNN of the host");
}

struct pst_dnn *pst_dnn_open(cudaStream_t stream, const char *properties, uint32_t sms,
                             char *ret_why, size_t why_size)
{
    struct pst_dnn *dnn = is("absent") ? NULL : calloc(1, sizeof *dnn);

    snprintf(ret_why, why_size, "it is not there, or out of memory");
    if (dnn != NULL) {
        dnn->stream = stream;
    }
    return dnn;
}

void pst_dnn_close(struct pst_dnn *dnn)
{
    free(dnn);
}

bool pst_dnn_follow(struct pst_dnn *dnn, cudaStream_t stream)
{
    dnn->stream = stream;
    return true;
}

struct pst_dnn_plan *pst_dnn_plan_create(struct pst_dnn *dnn, const struct pst_dnn_graph *graph,
                                         char *ret_why, size_t why_size)
{
    struct pst_dnn_plan *plan = is("choosy") ? NULL : calloc(1, sizeof *plan);

    snprintf(ret_why, why_size, is("choosy") ? "it has no kernel" : "out of memory");
    if (plan != NULL) {
        plan->dnn = dnn;
        memcpy(&plan->graph, graph, sizeof plan->graph);
    }
    return plan;
}

void pst_dnn_plan_destroy(struct pst_dnn_plan *plan)
{
    free(plan);
}

bool pst_dnn_plan_compile(struct pst_dnn_plan *plan, char *ret_why, size_t why_size)
{
    snprintf(ret_why, why_size, "it is broken");
    atomic_fetch_add(&cuda_on_host()->plans, !plan->compiled);
    plan->compiled = !is("broken") && !is("tight");
    return plan->compiled;
}

uint64_t pst_dnn_plan_bytes(const struct pst_dnn_plan *plan)
{
    return is("broken") ? 1u << 20 : is("tight") ? 1 : BYTES;
}

/* Filter gradients in bf16 of channels that are no multiple of 8 (plugins/device/cuda/dnn_conv.c).
 */
static bool is_wrong(const struct pst_dnn_graph *graph)
{
    const struct pst_dnn_op *op = &graph->ops[0];

    return op->kind == PST_DNN_CONV_B && graph->tensors[op->x].type == PST_DNN_BF16 &&
           (graph->tensors[op->x].dims[1] % 8 != 0 || graph->tensors[op->b].dims[1] % 8 != 0);
}

struct launch {
    const struct pst_dnn_plan *plan;
    void *operands[PST_DNN_ROLES];
    void *workspace;
    bool prompt;
    const char *fault;
};

static void run_plan(void *context)
{
    struct launch *launch = context;

    memset(launch->workspace, 0xFF, BYTES);
    launch->fault = interpret(&launch->plan->graph, launch->operands);
    memset(launch->workspace, 0xFF, BYTES);
    if (launch->fault != NULL && !launch->prompt) {
        fprintf(stderr, "cuDNN of the host: %s\n", launch->fault);
        abort();
    }
}

const char *pst_dnn_plan_run(const struct pst_dnn_plan *plan, void *const operands[PST_DNN_ROLES],
                             void *workspace)
{
    struct launch launch = {.plan = plan, .workspace = workspace};

    if (!plan->compiled || workspace == NULL) {
        return "a plan that was not compiled, or no workspace";
    }
    if (is_wrong(&plan->graph)) {
        return "a sum that the library gets wrong";
    }
    for (uint32_t role = 0; role < PST_DNN_ROLES; role++) {
        if (plan->graph.of_role[role] != PST_DNN_NONE && (uintptr_t)operands[role] % 16 != 0) {
            return "an operand that is not where tensors are said to be";
        }
    }
    memcpy(launch.operands, operands, sizeof launch.operands);
    launch.prompt = on_host_is_prompt(plan->dnn->stream);
    on_host_enqueue_kernel(plan->dnn->stream, run_plan, &launch, sizeof launch);
    return launch.fault;
}
