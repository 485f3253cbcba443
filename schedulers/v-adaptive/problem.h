/* SPDX-License-Identifier: Apache-2.0
 *
 * The instance that v-adaptive searches over, and how an order of it is judged.
 *
 * p devices hold 2p stages in a V: device d has stage d (chunk 0) and stage 2p - 1 - d (chunk 1).
 * Each device runs six kinds of pass, m of each. Within one kind micro-batches go in rising number,
 * so an order is, for each device, a sequence of 6m kinds.
 */
#ifndef V_ADAPTIVE_PROBLEM_H
#define V_ADAPTIVE_PROBLEM_H

#include <penstock/penstock.h>

enum va_kind { VA_F0, VA_F1, VA_B1, VA_B0, VA_W1, VA_W0, VA_KINDS, VA_IDLE = 255 };

/* Which figure is made small first. */
enum va_goal { VA_SPAN, VA_MAKESPAN };

/* What is known of a kind on one device. */
struct va_pass {
    uint64_t cost_ns;
    uint64_t delay_ns; /* from the end of its need until the result is here */
    int64_t at_start;  /* change of held bytes */
    int64_t at_end;
    uint32_t need; /* index of the pass it needs, of the same micro-batch */
    bool has_need;
};

struct va_problem {
    uint32_t p, m;
    enum va_goal goal;
    struct va_pass *passes; /* [p * VA_KINDS] */
    int64_t *cap;           /* [p] bytes */
};

/* Compared from the first field on; smaller is better. */
struct va_cost {
    uint64_t first;  /* the goal's figure */
    uint64_t second; /* the other one */
    uint64_t memory; /* largest peak, in bytes */
    uint64_t guide;  /* not compared: sum of the figure over the devices, to lead a search */
};

/* What a device would do next, and when; start is UINT64_MAX and kind VA_IDLE for nothing. */
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

static inline size_t va_sequence_length(const struct va_problem *q)
{
    return (size_t)VA_KINDS * q->m;
}

static inline size_t va_order_length(const struct va_problem *q)
{
    return va_sequence_length(q) * q->p;
}

/* p devices, m micro-batches, needs of a V; costs, bytes and delays 0, caps without limit. */
pst_status va_problem_init(struct va_problem *q, uint32_t p, uint32_t m);
void va_problem_finish(struct va_problem *q);
/* The same with other caps or another m; passes are copied. */
pst_status va_problem_copy(struct va_problem *q, const struct va_problem *from, uint32_t m);
/* Every pass costs 1, each chunk holds 1, links are free: what building blocks are laid out in. */
void va_problem_make_unit(struct va_problem *q);

pst_status va_work_init(struct va_work *work, const struct va_problem *q);
void va_work_finish(struct va_work *work);

int va_cost_compare(const struct va_cost *a, const struct va_cost *b);

/*
 * Times the order, each pass as early as its sequence and its need allow. False, with nothing in
 * ret_cost, when it has a cycle, is no permutation of the passes, or holds more than a cap.
 */
bool va_evaluate(const struct va_problem *q, const uint8_t *order, struct va_work *work,
                 struct va_cost *ret_cost);

/* Work of the busiest device for one micro-batch. */
uint64_t va_period(const struct va_problem *q);

/* No order costs less: work of a device between the shortest ways into it and out of it, and the
   longest chain. Independent of memory. */
uint64_t va_bound(const struct va_problem *q, enum va_goal goal);

#endif
