/* SPDX-License-Identifier: Apache-2.0
 *
 * Instead of dnn_library.c, dnn_describe.c and dnn_plan.c where the module is built without the
 * headers of cuDNN: nothing is served.
 */
#include <stdio.h>

#include "dnn_plan.h"

struct pst_dnn *pst_dnn_open(cudaStream_t stream, const char *properties, uint32_t sms,
                             char *ret_why, size_t why_size)
{
    (void)stream;
    (void)properties;
    (void)sms;
    pst_dnn_describe(ret_why, why_size);
    return NULL;
}

void pst_dnn_close(struct pst_dnn *dnn)
{
    (void)dnn;
}

bool pst_dnn_follow(struct pst_dnn *dnn, cudaStream_t stream)
{
    (void)dnn;
    (void)stream;
    return false;
}

void pst_dnn_describe(char *ret_text, size_t text_size)
{
    snprintf(ret_text, text_size, "built without cuDNN");
}

struct pst_dnn_plan *pst_dnn_plan_create(struct pst_dnn *dnn, const struct pst_dnn_graph *graph,
                                         char *ret_why, size_t why_size)
{
    (void)dnn;
    (void)graph;
    pst_dnn_describe(ret_why, why_size);
    return NULL;
}

void pst_dnn_plan_destroy(struct pst_dnn_plan *plan)
{
    (void)plan;
}

bool pst_dnn_plan_compile(struct pst_dnn_plan *plan, char *ret_why, size_t why_size)
{
    (void)plan;
    pst_dnn_describe(ret_why, why_size);
    return false;
}

uint64_t pst_dnn_plan_bytes(const struct pst_dnn_plan *plan)
{
    (void)plan;
    return 0;
}

const char *pst_dnn_plan_run(const struct pst_dnn_plan *plan, void *const operands[PST_DNN_ROLES],
                             void *workspace)
{
    (void)plan;
    (void)operands;
    (void)workspace;
    return "built without cuDNN";
}
