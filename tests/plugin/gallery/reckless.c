/* SPDX-License-Identifier: Apache-2.0
 *
 * A memory optimizer that recomputes every node, allowed or not.
 */
#include "gallery.h"

static pst_status create(const struct pst_host *host, const void *config, void **ret_self)
{
    *ret_self = (void *)(uintptr_t)host;
    return PST_OK;
}

PST_DESTROY_NOTHING

static pst_status price(void *self, const struct pst_stage_view *view,
                        struct pst_stage_price *ret_price)
{
    ret_price->fits = 0;
    ret_price->period_ns = 1;
    ret_price->peak_bytes = 1;
    return PST_OK;
}

static pst_status plan(void *self, const struct pst_stage_view *view, struct pst_action_out *out)
{
    for (uint32_t i = 0; i < view->n_nodes; i++) {
        pst_status st = out->set(out, i, PST_ACTION_RECOMPUTE);

        if (st != PST_OK) {
            return st;
        }
    }
    return PST_OK;
}

PST_INTERFACE(PST_MEMOPT, struct pst_memopt, .price = price, .plan = plan)

GALLERY_PLUGIN("memopt", "reckless", "0", "Recomputes every node, allowed or not.",
               PST_PLUGIN_NO_PARAMS, "chain", "recompute")
