/* SPDX-License-Identifier: Apache-2.0
 *
 * ZB-H1: 1F1B with backwards split, and weight gradients kept back to fill what would be idle.
 * Every device holds as many micro-batches as the first one of 1F1B does.
 * Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024.
 */
#include <string.h>

#include "zero_bubble.h"

#define AHEAD 1 /* forwards that run ahead for each device behind */

static pst_status build(const struct fixed_question *question, struct order *order)
{
    return zero_bubble_build(question, AHEAD, order);
}

static pst_status in_flight(void *self, const struct pst_place *place, struct pst_held *ret_held)
{
    (void)self;
    ret_held->microbatches = zero_bubble_held(place, AHEAD);
    ret_held->weight_versions = 1;
    return PST_OK;
}

static const struct fixed_rules rules = {
    .id = "zb-h1",
    .placement = FIXED_SEQUENTIAL,
    .build = build,
};

static pst_status create(const struct pst_host *host, const void *config, void **ret_self)
{
    return fixed_create(host, config, &rules, ret_self);
}

static const struct pst_scheduler scheduler = {
    .size = sizeof scheduler,
    .topology = fixed_topology,
    .in_flight = in_flight,
    .schedule = fixed_schedule,
};

static const void *get_interface(const char *id)
{
    return strcmp(id, PST_SCHEDULER) == 0 ? &scheduler : NULL;
}

static const char *const provides[] = {"chain", "split-backward", NULL};
static const char *const needs[] = {NULL};

static const struct pst_plugin plugin = {
    SCHEDULER_DESCRIPTION("zb-h1"),
    .summary =
        "1F1B with weight gradients kept for idle moments: a third of the bubble, no more memory.",
    .reference = "Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024",
    .provides = provides,
    .needs = needs,
    .create = create,
    .destroy = fixed_destroy,
    .get_interface = get_interface,
};

PST_PLUGIN(plugin)
