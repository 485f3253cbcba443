/* SPDX-License-Identifier: Apache-2.0
 *
 * For schedulers: an order of passes under construction, its eager evaluation, and what is held.
 * Linked into each plugin that wants it (penstock_add_plugin(... LINK scheduler_common)); depends
 * on the plugin headers and on plugins/call alone: all of it runs within a call of the host, which
 * ends where there is no memory or a question is refused.
 */
#ifndef SCHEDULERS_COMMON_ORDER_H
#define SCHEDULERS_COMMON_ORDER_H

#include "plugin_call.h"

struct order_op {
    uint32_t stage, microbatch;
    uint8_t pass;   /* PST_PASS_* */
    uint8_t paired; /* 1: an F that runs as one pair with the op after it, a B or BW */
};

struct order_list {
    struct order_op *ops;
    uint32_t n, room;
};

struct order {
    const struct pst_schedule_in *in;
    struct order_list *lists; /* [n_devices] */
};

/* Empty lists for `in`, which must outlive the order. */
void order_init(struct order *order, const struct pst_schedule_in *in);
/* For searches, which build thousands; accepts an order that is all zero. */
void order_finish(struct order *order);
/* Appends one pass to the list of `device`. */
void order_add(struct order *order, uint32_t device, uint32_t pass, uint32_t stage,
               uint32_t microbatch);
/* A backward: BW; `split`: B and W, one after the other. */
void order_add_backward(struct order *order, bool split, uint32_t device, uint32_t stage,
                        uint32_t microbatch);
/* The passes of a stage in 1F1B: `ahead` forwards, then one forward and one backward in turn, then
   the backwards that are left. Backwards of `slices` go from the last to the first. */
void order_one_f_one_b(struct order *order, bool split, uint32_t s, uint32_t ahead,
                       uint32_t slices);
/* Hands the whole order to the host, pairs as pairs. */
pst_status order_emit(const struct order *order, struct pst_schedule_out *out);

/* Times by the eager rule: a pass starts when its device is free and its needs are there; between
   devices a link takes its transfer_ns; BW publishes at its end. */
struct order_times {
    uint64_t makespan_ns; /* end of the last pass, from time 0 */
    uint64_t span_ns;     /* most over devices: end of the last pass - start of the first */
};

/*
 * Where sizes differ, a pass needs all passes of a neighbour that share samples with it. The order
 * may be incomplete if it is closed: what a pass of it needs is in it. False: it has a cycle, needs
 * a pass that is not in it, or has a pass twice.
 */
bool order_evaluate(const struct order *order, struct order_times *ret_times);

/* The greatest common divisor; of 0 and a number that number. */
uint64_t order_gcd(uint64_t a, uint64_t b);

/* Most saved bytes of a device: + saved at F, - (saved - saved_weight) after B, rest after W/BW. */
uint64_t order_peak_bytes(const struct order *order, uint32_t device);

/*
 * Checks the input of chain schedulers: exactly `stages_per_device` stages on each device in use,
 * one number of micro-batches for all stages, which it returns. Otherwise the call ends with a
 * message that names the scheduler.
 */
uint32_t order_require_chain(const struct pst_host *host, const char *scheduler,
                             const struct pst_schedule_in *in, uint32_t stages_per_device);

/* pst_scheduler.topology of most with one stage per device: any number of micro-batches, one
   version of the weights. */
pst_status order_topology(void *self, uint32_t n_devices, struct pst_topology *ret_topology);

/* Ends the call, explained to the host, where a device holds more than its activation_bytes. */
void order_require_room(const struct pst_host *host, const char *scheduler,
                        const struct order *order);

/* The interface of a scheduler whose `schedule` runs as a call. Then further functions. */
#define SCHEDULER_INTERFACE(...)                                                                   \
    CALL_FUNCTION(call_schedule, schedule, struct pst_schedule_in, struct pst_schedule_out)        \
    PST_INTERFACE(PST_SCHEDULER, struct pst_scheduler, .schedule = call_schedule, __VA_ARGS__)

/* Capability words. */
#define SCHEDULER_WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* The end of a scheduler, its description, before which create(), destroy() and get_interface()
   stand. words: what it provides; then fields: summary, reference, parameters. */
#define SCHEDULER_PLUGIN(plugin_id, plugin_version, words, ...)                                    \
    static const struct pst_plugin plugin = {                                                      \
        PST_PLUGIN_HEAD("scheduler", plugin_id, plugin_version),                                   \
        .license = "Apache-2.0",                                                                   \
        .provides = words,                                                                         \
        .needs = ((const char *const[]){NULL}),                                                    \
        PST_PLUGIN_FUNCTIONS,                                                                      \
        __VA_ARGS__};                                                                              \
    PST_PLUGIN(plugin)

#endif
