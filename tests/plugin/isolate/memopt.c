/* SPDX-License-Identifier: Apache-2.0
 *
 * Crashes when a partitioner asks what a stage costs: a call inside another plugin's call.
 */

#include "../gallery/gallery.h"

static volatile uintptr_t nowhere = 16;

static pst_status create(const struct pst_host *host, const void *config, void **ret_self)
{
    *ret_self = (void *)(uintptr_t)host;
    return PST_OK;
}

PST_DESTROY_NOTHING

static pst_status price(void *self, const struct pst_stage_view *view,
                        struct pst_stage_price *ret_price)
{
    *(volatile int *)nowhere = 1;
    return PST_OK;
}

static pst_status plan(void *self, const struct pst_stage_view *view, struct pst_action_out *out)
{
    return PST_OK;
}

PST_INTERFACE(PST_MEMOPT, struct pst_memopt, .price = price, .plan = plan)

GALLERY_PLUGIN("memopt", BAD_ID, "0", "Exists to misbehave.", PST_PLUGIN_NO_PARAMS, NULL)
