/* SPDX-License-Identifier: Apache-2.0 */
#include "host/call.h"

#include "host/lend.h"

/* A call in progress: who is asked, and its copy of the question. */
struct call {
    struct pst_instance *instance;
    struct pst_region region;
    const void *question;
};

static void begin(struct call *call, struct pst_instance *instance, enum pst_plugin_call name,
                  pst_lend_copy *copy, const void *question)
{
    *call = (struct call){.instance = instance};
    pst_lend(copy, question, instance->wider, &call->region, &call->question);
    pst_breadcrumb_enter(instance->crumb, name);
}

static pst_status written(struct pst_instance *instance)
{
    return pst_fail(&instance->failure, PST_ERR_BUG, "plugin.contract", "it wrote into its input");
}

static pst_status end(struct call *call, pst_status st)
{
    pst_breadcrumb_leave();
    st = pst_region_intact(&call->region) ? st : written(call->instance);
    pst_region_finish(&call->region);
    return st;
}

pst_status pst_call_in_flight(struct pst_instance *scheduler, const struct pst_place *place,
                              struct pst_held *ret_held)
{
    const struct pst_scheduler *f = scheduler->plugin->get_interface(PST_SCHEDULER);
    struct call call;

    begin(&call, scheduler, PST_CRUMB_IN_FLIGHT, pst_lend_place, place);
    return end(&call, f->in_flight(scheduler->self, call.question, ret_held));
}

pst_status pst_call_schedule(struct pst_instance *scheduler, const struct pst_schedule_in *in,
                             struct pst_schedule_out *out)
{
    const struct pst_scheduler *f = scheduler->plugin->get_interface(PST_SCHEDULER);
    struct call call;

    begin(&call, scheduler, PST_CRUMB_SCHEDULE, pst_lend_schedule, in);
    return end(&call, f->schedule(scheduler->self, call.question, out));
}

pst_status pst_call_partition(struct pst_instance *partitioner, const struct pst_partition_in *in,
                              struct pst_partition_out *out)
{
    const struct pst_partitioner *f = partitioner->plugin->get_interface(PST_PARTITIONER);
    struct call call;
    const struct pst_region *figures = partitioner->context.figures;
    pst_status st;

    begin(&call, partitioner, PST_CRUMB_PARTITION, pst_lend_partition, in);
    st = end(&call, f->partition(partitioner->self, call.question, out));
    return figures == NULL || pst_region_intact(figures) ? st : written(partitioner);
}

pst_status pst_call_bound(struct pst_instance *memopt, const struct pst_stage_view *view,
                          uint64_t *ret_period_ns)
{
    const struct pst_memopt *f = memopt->plugin->get_interface(PST_MEMOPT);
    struct call call;

    begin(&call, memopt, PST_CRUMB_BOUND, pst_lend_stage_view, view);
    return end(&call, f->bound(memopt->self, call.question, ret_period_ns));
}

pst_status pst_call_price(struct pst_instance *memopt, const struct pst_stage_view *view,
                          struct pst_stage_price *ret_price)
{
    const struct pst_memopt *f = memopt->plugin->get_interface(PST_MEMOPT);
    struct call call;

    begin(&call, memopt, PST_CRUMB_PRICE, pst_lend_stage_view, view);
    return end(&call, f->price(memopt->self, call.question, ret_price));
}

pst_status pst_call_plan(struct pst_instance *memopt, const struct pst_stage_view *view,
                         struct pst_action_out *out)
{
    const struct pst_memopt *f = memopt->plugin->get_interface(PST_MEMOPT);
    struct call call;

    begin(&call, memopt, PST_CRUMB_PLAN, pst_lend_stage_view, view);
    return end(&call, f->plan(memopt->self, call.question, out));
}

pst_status pst_call_global(struct pst_instance *memopt, const struct pst_global_in *in,
                           struct pst_global_out *out)
{
    const struct pst_memopt_global *f = memopt->plugin->get_interface(PST_MEMOPT_GLOBAL);
    struct call call;

    begin(&call, memopt, PST_CRUMB_PLAN, pst_lend_global, in);
    return end(&call, f->plan(memopt->self, call.question, out));
}
