/* SPDX-License-Identifier: Apache-2.0
 *
 * For schedulers: an order of passes under construction, its eager evaluation, and what is held.
 * Linked into each plugin that wants it (penstock_add_plugin(... LINK scheduler_common)); depends
 * on the plugin headers alone. Memory is malloc'd: a search may build thousands of orders. Pure
 * functions of their arguments, so any thread may call them.
 */
#ifndef SCHEDULERS_COMMON_ORDER_H
#define SCHEDULERS_COMMON_ORDER_H

#include <penstock/penstock.h>

struct order_op {
    uint32_t stage, microbatch;
    uint8_t pass;   /* PST_PASS_* */
    uint8_t paired; /* 1: an F that runs as one pair with the op behind it, a B or BW */
};

struct order_list {
    struct order_op *ops;
    uint32_t n, room;
};

struct order {
    const struct pst_schedule_in *in;
    struct order_list *lists; /* [n_devices] */
    bool failed;              /* there was no memory for a pass: order_emit and others say so */
};

/* Empty lists for `in`, which must outlive the order. PST_ERR_NOMEM. Call order_finish in any case
   of PST_OK; it accepts an order that is all zero. */
pst_status order_init(struct order *order, const struct pst_schedule_in *in);
void order_finish(struct order *order);
/* Appends one pass to the list of `device`. */
void order_add(struct order *order, uint32_t device, uint32_t pass, uint32_t stage,
               uint32_t microbatch);
/* A backward: BW; `split`: B and W, one after the other. */
void order_add_backward(struct order *order, bool split, uint32_t device, uint32_t stage,
                        uint32_t microbatch);
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
 * may be incomplete if it is closed: what a pass of it needs is in it.
 * PST_ERR_BUG    it has a cycle, needs a pass that is not in it, or has a pass twice
 * PST_ERR_NOMEM
 */
pst_status order_evaluate(const struct order *order, struct order_times *ret_times);

/* The greatest common divisor; of 0 and a number that number. */
uint64_t order_gcd(uint64_t a, uint64_t b);

/* Most saved bytes of a device: + saved at F, - (saved - saved_weight) after B, rest after W/BW. */
uint64_t order_peak_bytes(const struct order *order, uint32_t device);

/*
 * What most chain schedulers ask: exactly `stages_per_device` stages on each device in use, one
 * number of micro-batches for all stages. ret_m: that number. Else host->fail with a message that
 * names the scheduler; returns its code.
 */
pst_status order_require_chain(const struct pst_host *host, const char *scheduler,
                               const struct pst_schedule_in *in, uint32_t stages_per_device,
                               uint32_t *ret_m);

/* pst_scheduler.topology of most with one stage per device: any number of micro-batches, one
   version of the weights. */
pst_status order_topology(void *self, uint32_t n_devices, struct pst_topology *ret_topology);

/* PST_ERR_INFEASIBLE, explained to the host: a device holds more than its activation_bytes. */
pst_status order_require_room(const struct pst_host *host, const char *scheduler,
                              const struct order *order);

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
