/* SPDX-License-Identifier: Apache-2.0
 *
 * For schedulers: an order of passes under construction, its eager evaluation, and what is held.
 * Linked into each plugin that wants it; depends on the plugin headers alone. Memory is malloc'd:
 * a search may build thousands of orders.
 */
#ifndef SCHEDULERS_COMMON_ORDER_H
#define SCHEDULERS_COMMON_ORDER_H

#include <penstock/penstock.h>

struct order_op {
    uint32_t stage, microbatch;
    uint8_t pass; /* PST_PASS_* */
};

struct order_list {
    struct order_op *ops;
    uint32_t n, room;
};

struct order {
    const struct pst_schedule_in *in;
    struct order_list *lists; /* [n_devices] */
};

pst_status order_init(struct order *order, const struct pst_schedule_in *in);
void order_finish(struct order *order);
pst_status order_add(struct order *order, uint32_t device, uint32_t pass, uint32_t stage,
                     uint32_t microbatch);
/* Hands the whole order to the host. */
pst_status order_emit(const struct order *order, struct pst_schedule_out *out);

/* Times by the eager rule: a pass starts when its device is free and its needs are there; between
   devices a link takes its transfer_ns; BW publishes at its end. */
struct order_times {
    uint64_t **start_ns, **end_ns; /* [device][position] */
    uint64_t makespan_ns, span_ns;
};

/* PST_ERR_BUG: the order has a cycle. Call order_times_finish in any case. */
pst_status order_evaluate(const struct order *order, struct order_times *ret_times);
void order_times_finish(struct order_times *times);

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

#endif
