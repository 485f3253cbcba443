/* SPDX-License-Identifier: Apache-2.0
 *
 * Logical devices. Where the partitioner knows replicas and the scheduler takes any stages, it is
 * given all ranks and says which stage has which. Everybody else is given logical devices of equal
 * size, as though each were one device, and the host deals their samples out.
 */
#include "host/caps.h"
#include "planner/state.h"
#include "planner/topology.h"

static pst_status ask_topology(struct pst_planner *planner, uint32_t n_devices,
                               struct pst_error *err)
{
    return pst_scheduler_topology(planner->scheduler, n_devices, &planner->topology, err);
}

/* Those that the devices suffice for. */
static pst_status read_degrees(struct pst_planner *planner, struct pst_error *err)
{
    const struct pst_job_train *train = &planner->job->train;

    planner->n_degrees = 0;
    for (uint32_t i = 0; i < train->n_degrees; i++) {
        if (train->degree[i] <= planner->n_ranks) {
            planner->degrees[planner->n_degrees++] = train->degree[i];
            planner->replicates |= train->degree[i] > 1;
        }
    }
    return planner->n_degrees > 0
               ? PST_OK
               : pst_fail(err, PST_ERR_CONFIG, "config.value",
                          "train.degrees asks for at least %u replicas of every stage, but there "
                          "are %u devices",
                          train->degree[0], planner->n_ranks);
}

/* Every logical device has as many ranks as the first degree says. */
static pst_status divide_evenly(struct pst_planner *planner, uint32_t degree, struct pst_error *err)
{
    const char *who = planner->topology.n_stages != 0 ? planner->scheduler->plugin->id
                                                      : planner->partitioner->plugin->id;

    if (planner->n_ranks % degree != 0 || planner->microbatch % degree != 0) {
        return pst_fail(err, PST_ERR_CONFIG, "config.value",
                        "with \"%s\" every stage has %u replicas, the first of train.degrees: that "
                        "must divide the %u devices and train.microbatch = %u",
                        who, degree, planner->n_ranks, planner->microbatch);
    }
    planner->degree = degree;
    return PST_OK;
}

pst_status pst_planner_devices(struct pst_planner *planner, struct pst_error *err)
{
    bool knows = pst_caps_has(planner->partitioner->plugin->provides, "replicas");
    uint32_t n = planner->n_ranks, asked;
    pst_status st = read_degrees(planner, err);

    if (st != PST_OK) {
        return st;
    }
    asked = n % planner->degrees[0] == 0 ? n / planner->degrees[0] : n;
    st = ask_topology(planner, asked, err);
    if (st == PST_OK && knows && planner->topology.n_stages == 0) {
        planner->chooses = true;
        planner->degree = 1;
        planner->n_devices = n;
        return asked == n ? PST_OK : ask_topology(planner, n, err);
    }
    planner->n_devices = asked;
    return st == PST_OK ? divide_evenly(planner, planner->degrees[0], err) : st;
}

pst_status pst_planner_chosen(struct pst_planner *planner, const struct pst_plan *plan,
                              struct pst_error *err)
{
    pst_status st;

    if (!planner->chooses || !planner->replicates) {
        return PST_OK;
    }
    st = ask_topology(planner, plan->n_stages, err);
    return st == PST_OK ? pst_planner_microbatches(planner, err) : st;
}
