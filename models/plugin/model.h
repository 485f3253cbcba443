/* SPDX-License-Identifier: Apache-2.0
 *
 * A graph that a plugin builds: the calls to the host's builder (<penstock/build.h>), checked and
 * kept where the plugin runs, and made again, with the same checks, where the graph is wanted.
 */
#ifndef PST_PLUGIN_MODEL_H
#define PST_PLUGIN_MODEL_H

#include "base/wire.h"
#include "graph/graph.h"
#include "host/plugin_host.h"
#include "models/plugin/operators.h"

struct pst_model_call;

/* All zero: none. */
struct pst_model_calls {
    struct pst_arena arena;
    uint32_t n;
    size_t room;
    struct pst_model_call *calls;
};

void pst_model_calls_finish(struct pst_model_calls *calls);
/* To or from another process. */
void pst_model_calls_pass(struct pst_wire *w, struct pst_model_calls *calls);

/* Runs build() of an instance. operators: that it may use; NULL: none. dtype: as
   pst_graph_builder_create. Errors: plugin.contract, exit code 3, where a call was refused; those
   of pst_instance_fail. [plan] */
pst_status pst_model_ask(struct pst_instance *model, const struct pst_operators *operators,
                         uint32_t dtype, struct pst_model_calls *ret_calls, struct pst_error *err);

/* The graph, called as the plugin. Errors: plugin.contract, exit code 3, naming it. */
pst_status pst_model_graph(const struct pst_model_calls *calls,
                           const struct pst_operators *operators, const char *id, uint32_t dtype,
                           struct pst_graph **ret_graph, struct pst_error *err);

#endif
