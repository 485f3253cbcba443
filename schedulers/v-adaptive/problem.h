/* SPDX-License-Identifier: Apache-2.0
 *
 * The instance that v-adaptive searches over, and how an order of it is judged.
 *
 * p devices hold 2p stages in a V: device d has stage d (chunk 0) and stage 2p - 1 - d (chunk 1).
 * Links between stages go forward in their numbers and form any DAG. Each device runs six kinds of
 * pass, m of each. Within one kind micro-batches go in rising number, so an order is, for each
 * device, a sequence of 6m kinds.
 */
#ifndef V_ADAPTIVE_PROBLEM_H
#define V_ADAPTIVE_PROBLEM_H

#include "plugin_call.h"

enum va_kind { VA_F0, VA_F1, VA_B1, VA_B0, VA_W1, VA_W0, VA_KINDS, VA_IDLE = 255 };

/* Which figure is made small first. */
enum va_goal { VA_SPAN, VA_MAKESPAN };

/* From one stage to another, and back the same way. */
struct va_link {
    uint32_t from, to;
    uint64_t delay_ns; /* 0 on one device */
};

/* A pass that another one needs, of the same micro-batch. */
struct va_need {
    uint64_t delay_ns; /* from the end of it until the result is here */
    uint32_t pass;
    bool crosses; /* from another device */
};

/* A kind of pass on one device. */
struct va_pass {
    uint64_t cost_ns;
    int64_t at_start; /* change of held bytes */
    int64_t at_end;
    uint32_t first_need, n_needs;
    uint32_t first_reader, n_readers;
};

struct va_problem {
    uint32_t p, m;
    enum va_goal goal;
    struct va_pass *passes; /* [p * VA_KINDS] */
    struct va_need *needs;  /* [n_needs] by the pass that has them */
    uint32_t *readers;      /* [n_needs] devices with a pass that needs it, by the pass */
    uint32_t n_needs;
    bool is_chain;  /* stage s needs stage s - 1 alone */
    int64_t *cap;   /* [p] bytes */
    uint64_t bound; /* no order costs less, whatever the caps */
};

/* Compared from the first field on; smaller is better. */
struct va_cost {
    uint64_t first;  /* the goal's figure */
    uint64_t second; /* the other one */
    uint64_t memory; /* largest peak, in bytes */
    uint64_t guide;  /* not compared: sum of the figure over the devices, to lead a search */
};

/* A device's next pass and its start; start is UINT64_MAX and kind VA_IDLE if there is none. */
struct va_choice {
    uint64_t start;
    uint32_t kind;
};

/* Scratch of one problem size. Results of the last va_evaluate stay in start and end. */
struct va_work {
    uint64_t *start, *end;     /* [(d * VA_KINDS + kind) * m + micro-batch] */
    uint32_t *done;            /* [p * VA_KINDS] */
    uint32_t *at;              /* [p] position in the sequence */
    uint64_t *clock;           /* [p] */
    int64_t *held, *peak;      /* [p] */
    struct va_choice *choices; /* [p] */
};

static inline uint32_t va_pass_index(uint32_t device, uint32_t kind)
{
    return device * VA_KINDS + kind;
}

/* The stage of a kind on a device, and where a stage has its kinds. */
static inline uint32_t va_stage(uint32_t p, uint32_t device, uint32_t kind)
{
    return kind == VA_F0 || kind == VA_B0 || kind == VA_W0 ? device : 2 * p - 1 - device;
}

/* Pass number i of one micro-batch in an order in which each comes after all that it needs:
   forwards down the V and up, backwards down and up, weight halves. */
static inline uint32_t va_pass_in_order(uint32_t p, uint32_t i)
{
    uint32_t kind = i / p, d = i % p;

    return va_pass_index(kind == VA_F1 || kind == VA_B0 ? p - 1 - d : d, kind);
}

static inline size_t va_sequence_length(const struct va_problem *q)
{
    return (size_t)VA_KINDS * q->m;
}

static inline size_t va_order_length(const struct va_problem *q)
{
    return va_sequence_length(q) * q->p;
}

/* p devices, m micro-batches, needs as the links say; costs and bytes 0, caps without limit. */
void va_problem_init(struct va_problem *q, uint32_t p, uint32_t m, const struct va_link *links,
                     uint32_t n_links);
/* Returns a copy that may be changed. */
struct va_problem va_problem_copy(const struct va_problem *from);

void va_work_init(struct va_work *work, const struct va_problem *q);
/* Room for an order. */
uint8_t *va_order(const struct va_problem *q);

int va_cost_compare(const struct va_cost *a, const struct va_cost *b);

/* When a pass of micro-batch j can start as far as needs go. False: one of them has not run. */
static inline bool va_arrival(const struct va_problem *q, const struct va_work *work,
                              const struct va_pass *pass, uint32_t j, uint64_t *ret_arrival)
{
    const struct va_need *need = &q->needs[pass->first_need], *end = need + pass->n_needs;
    uint64_t at = 0;

    for (; need < end; need++) {
        uint64_t arrival;

        if (work->done[need->pass] <= j) {
            return false;
        }
        arrival = work->end[(size_t)need->pass * q->m + j] + need->delay_ns;
        at = at > arrival ? at : arrival;
    }
    *ret_arrival = at;
    return true;
}

/*
 * Times the order, each pass as early as its sequence and its needs allow. False, with nothing in
 * ret_cost, when it has a cycle, is no permutation of the passes, or holds more than a cap.
 */
bool va_evaluate(const struct va_problem *q, const uint8_t *order, struct va_work *work,
                 struct va_cost *ret_cost);

/* Work of the busiest device for one micro-batch. */
uint64_t va_period(const struct va_problem *q);

#endif
