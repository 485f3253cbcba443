/* SPDX-License-Identifier: Apache-2.0
 *
 * For schedulers whose order follows from the numbers of devices, chunks and micro-batches alone:
 * everything but the order itself. Such a plugin states its rules, makes its instance with
 * fixed_create, and hands out fixed_scheduler. The order is dealt device by device, pass by pass.
 */
#ifndef SCHEDULERS_COMMON_FIXED_H
#define SCHEDULERS_COMMON_FIXED_H

#include "order.h"

#define FIXED_MAX_CHUNKS 64

/* How p devices share p * v stages: stage s on device s; on device s mod p; down and up again, a V
   of two stages a device or a wave of more. */
enum { FIXED_SEQUENTIAL = 0, FIXED_LOOPED = 1, FIXED_VSHAPE = 2 };

/* Device of stage s of p devices. */
uint32_t fixed_place(uint32_t placement, uint32_t p, uint32_t s);

struct fixed_hand;
struct fixed_question;

struct fixed_rules {
    const char *id;                         /* of the scheduler, for messages */
    uint32_t placement;                     /* FIXED_* */
    uint32_t (*chunks)(const void *config); /* NULL: 1, or 2 in a V */
    uint32_t (*least)(uint32_t n_devices);  /* micro-batches; NULL: 1 */
    uint32_t ahead;                         /* zero_bubble.h alone */
    bool rounds; /* micro-batches go in rounds of equally many; other numbers are refused */
    /* Two copies of as many stages as devices, the second of which goes the other way: chunks of a
       V that does not turn. */
    bool two_way;
    /* One of the two: fills the list of one device, of all lists. */
    void (*deal)(struct fixed_hand *hand);
    void (*build)(const struct fixed_question *question, struct order *order);
};

struct fixed {
    const struct pst_host *host;
    const void *config;
    const struct fixed_rules *rules;
};

/* p devices in use with v stages each, m micro-batches (of a copy), in rounds of r. */
struct fixed_question {
    const struct fixed *self;
    const struct pst_schedule_in *in;
    uint32_t p, v, m, r;
};

pst_status fixed_create(const struct pst_host *host, const void *config,
                        const struct fixed_rules *rules, void **ret_self);

/* The functions of pst.scheduler/1; fixed_scheduler has them all and leaves in_flight to the host,
   which counts. An order that exceeds the room of a device is refused. */
pst_status fixed_topology(void *self, uint32_t n_devices, struct pst_topology *ret_topology);
pst_status fixed_schedule(void *self, const struct pst_schedule_in *in,
                          struct pst_schedule_out *out);
extern const struct pst_scheduler fixed_scheduler;
const void *fixed_get_interface(const char *id);

/* Writes create() of a scheduler with these rules. */
#define FIXED_CREATE(rules)                                                                        \
    static pst_status create(const struct pst_host *host, const void *config, void **ret_self)     \
    {                                                                                              \
        return fixed_create(host, config, &(rules), ret_self);                                     \
    }

/* Capability words of the orders with B and W on a V. */
#define FIXED_WORDS_V SCHEDULER_WORDS("chain", "chunks=2", "placement=vshape", "split-backward")

/* The end of a scheduler with such `rules`: create() and the description. words: what it provides;
   then fields, summary, reference and parameters. */
#define FIXED_PLUGIN(plugin_id, plugin_version, words, ...)                                        \
    FIXED_PLUGIN_WITH(fixed_get_interface, plugin_id, plugin_version, words, __VA_ARGS__)
/* With an interface of its own. */
#define FIXED_PLUGIN_WITH(interface_of, plugin_id, plugin_version, words, ...)                     \
    FIXED_CREATE(rules)                                                                            \
    PST_DESTROY_NOTHING                                                                            \
    static const void *get_interface(const char *id)                                               \
    {                                                                                              \
        return interface_of(id);                                                                   \
    }                                                                                              \
    SCHEDULER_PLUGIN(plugin_id, plugin_version, words, __VA_ARGS__)

/* Lays the passes of all devices out in slots: a device that is free takes what is ready, a
   backward before a forward, and of each the one of the oldest micro-batch. At most `window`
   micro-batches of a chain of stages have begun and not ended. With a `group` above 1, all that is
   said of a micro-batch here is of so many in a row, whose passes of a kind follow each other. */
struct fixed_slots {
    uint32_t forward, backward; /* slots of a pass */
    uint32_t window;
    uint32_t group; /* 0: 1 */
};
void fixed_build_slots(const struct fixed_question *question, const struct fixed_slots *slots,
                       struct order *order);

/* Stages on each device as a parameter, first in its config. */
struct fixed_chunks {
    int64_t chunks;
};

#define FIXED_CHUNKS_ROW                                                                           \
    PST_PARAM(struct fixed_chunks, chunks, PST_PARAM_INT, "2", "1..64", "Stages on each device.")
uint32_t fixed_chunks_of(const void *config); /* fixed_rules.chunks */

/* The stage that is chunk `chunk` of device d. */
uint32_t fixed_stage(const struct fixed_question *question, uint32_t d, uint32_t chunk);

/*
 * The list of one device, dealt in order. Passes of a kind and chunk take micro-batches in
 * ascending order; numbers from m on are dealt without effect, so that a rule for more
 * micro-batches than there are can be followed to its end.
 */
struct fixed_hand {
    const struct fixed_question *question;
    struct order *order;
    uint32_t d, device;
    uint32_t n_forward[FIXED_MAX_CHUNKS], n_backward[FIXED_MAX_CHUNKS], n_weight[FIXED_MAX_CHUNKS];
    uint32_t oldest; /* position in the list before which no B waits for its W */
};

void fixed_hand_init(struct fixed_hand *hand, const struct fixed_question *question,
                     struct order *order, uint32_t d);
/* F, B, W or BW of the next micro-batch of a chunk; B and BW share their count. */
void fixed_deal(struct fixed_hand *hand, uint32_t pass, uint32_t chunk);
/* F and BW as one pair. */
void fixed_deal_pair(struct fixed_hand *hand, uint32_t forward_chunk, uint32_t backward_chunk);
/* W of the B that has waited longest, over all chunks; nothing if none waits. Not to be mixed with
   fixed_deal of W on one hand. */
void fixed_deal_oldest(struct fixed_hand *hand);
/* fixed_deal_oldest until no B waits. */
void fixed_deal_waiting(struct fixed_hand *hand);
/*
 * DualPipe's order of a device that is the h-th of `half` from where the chunk `near` begins, while
 * micro-batches of the chunk `far` come towards it: pairs of a forward of one and a backward of the
 * other.
 */
void fixed_deal_dual(struct fixed_hand *hand, uint32_t half, uint32_t h, uint32_t near,
                     uint32_t far);
/* 1F1B over chunks in a loop: the n-th forward is of chunk (n div r) mod v, the n-th backward of
   the mirrored one; `ahead` forwards more than the rounds ask for come first. `backward` deals it.
 */
typedef void fixed_backward_fn(struct fixed_hand *hand, uint64_t n, uint32_t chunk);
void fixed_deal_looped(struct fixed_hand *hand, uint32_t ahead, fixed_backward_fn *backward);

#endif
