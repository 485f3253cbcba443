/* SPDX-License-Identifier: Apache-2.0
 *
 * The plan: stages, memory actions, instruction lists. One data structure that the host makes from
 * the strategies' answers, the file holds, the checker proves, the simulator times and the executor
 * runs. Made by plan_builder (pst_plan_create, pst_plan_add_stage, then pst_plan_lower), or read
 * from a file; read-only afterwards.
 *
 *   stages[s]    operators and their actions, replays        what each device keeps
 *                ranks, size and number of micro-batches     where and how often it runs
 *   edges[e]     tensor: stage ---> stage                    what SEND and RECV move
 *   devices[r]   F0 SEND F1 SEND RECV B0 W0 RECV B1 W1 STEP  what a rank runs, in this order
 *                                   ^    |
 *                                   +----+                   waits: instructions of the same list
 */
#ifndef PST_PLAN_PLAN_H
#define PST_PLAN_PLAN_H

#include <string.h>

#include <penstock/memopt.h>
#include <penstock/scheduler.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/saturate.h"
#include "graph/cost.h"
#include "graph/graph.h"

enum pst_instr_op {
    PST_I_F = PST_PASS_F,
    PST_I_B = PST_PASS_B,
    PST_I_W = PST_PASS_W,
    PST_I_BW = PST_PASS_BW,
    PST_I_R = PST_PASS_R,
    PST_I_SEND = 6,
    PST_I_RECV = 7,
    PST_I_OFFLOAD = 8,
    PST_I_FETCH = 9,
    PST_I_REDUCE = 10,
    PST_I_TIE = 11,
    PST_I_NORM = 12,
    PST_I_STEP = 13,
    PST_I_GATHER = 14,
    PST_I_MERGE = 15, /* after REDUCE: gradients of whole parameters of which each part of a replica
                         made a part are added over its parts */
    PST_I_COUNT
};

/* The data that a SEND and its RECV move: rows of an edge (ACT, GRAD); or what a micro-batch keeps
   for its backward passes, to a device that holds it as a guest (EVICT), and back (LOAD). */
enum pst_payload {
    PST_PAYLOAD_ACT = 0,
    PST_PAYLOAD_GRAD = 1,
    PST_PAYLOAD_EVICT = 2,
    PST_PAYLOAD_LOAD = 3,
    PST_PAYLOAD_COUNT
};

/* One instruction; fields that do not apply are 0. File form: docs/plan.md. */
struct pst_instr {
    uint8_t op;        /* enum pst_instr_op */
    uint8_t payload;   /* SEND, RECV */
    bool at_part_head; /* a FETCH that is posted when the list reaches it; false in plans */
    uint32_t stage; /* passes, copies, REDUCE, MERGE, STEP, GATHER: the stage; SEND, RECV: the edge,
                       or the stage of the guest; TIE: the tie */
    uint32_t microbatch;              /* passes and copies: of that stage */
    uint32_t node;                    /* copies: operator */
    uint32_t first_sample, n_samples; /* SEND, RECV: samples of the step */
    uint32_t peer;                    /* SEND, RECV: rank */
    uint32_t n_waits;
    const uint32_t *waits; /* instructions of the same list that must be complete before this one
                              starts, besides earlier ones of its queue; ascending */
};

/* A micro-batch whose results of operators with PST_ACTION_PEER another device holds between F and
   the backward passes. */
struct pst_plan_guest {
    uint32_t microbatch;
    uint32_t rank; /* the rank that holds those of the first rank; see pst_plan_guest_rank */
};

struct pst_plan_stage {
    uint32_t n_nodes;
    const uint32_t *nodes;  /* ascending operators */
    const uint8_t *actions; /* PST_ACTION_*, one per node */
    /* Replays of a backward pass in their order; they may be nested. None: each run of recomputed
       nodes is replayed once. Rules: pst_sequence_fault. */
    uint32_t n_replays;
    const struct pst_replay *replays;
    /* Replicas in order: replica r has the r-th part of every micro-batch. If the plan has copies,
       replicas of the first copy come first, equally many of each. Stages that share a rank share
       all their ranks, in the same order within a copy: these are a logical device, whose ranks
       run the same passes. With tensor parallelism a replica is `tensor` ranks in a row, its parts,
       which share each of its operators: ranks[replica * tensor + part]. A plan whose graph has
       parts and whose stages have not is one of groups: each rank in it stands for a replica. */
    uint32_t tensor; /* 1: a replica is a rank */
    uint32_t n_ranks;
    const uint32_t *ranks;
    uint32_t microbatch_size, k, n_microbatches; /* n_microbatches = batch / microbatch_size;
                                                    samples over all replicas */
    uint32_t in_flight, weight_versions; /* of the weights that its passes read: 1 in synchronous
                                            plans */
    uint32_t n_guests;                   /* number of its micro-batches held by other devices */
    const struct pst_plan_guest *guests; /* ascending by micro-batch */
    uint64_t estimated_bytes; /* its peak as planning estimated it; 0: read from a file */
};

static inline uint32_t pst_plan_replicas(const struct pst_plan_stage *stage)
{
    return stage->n_ranks / stage->tensor;
}

/* Samples of a micro-batch on each rank of the stage. */
static inline uint32_t pst_plan_samples(const struct pst_plan_stage *stage)
{
    return stage->n_ranks > 1 ? stage->microbatch_size / pst_plan_replicas(stage)
                              : stage->microbatch_size;
}

/* Returns true if any operator of the stage has the action. */
static inline bool pst_plan_stage_has(const struct pst_plan_stage *stage, uint8_t action)
{
    return stage->n_nodes > 0 && memchr(stage->actions, action, stage->n_nodes) != NULL;
}

/* The place of a rank among those of the stage; PST_NONE: it does not hold the stage. */
static inline uint32_t pst_plan_place(const struct pst_plan_stage *stage, uint32_t rank)
{
    uint32_t place = 0;

    while (place < stage->n_ranks && stage->ranks[place] != rank) {
        place++;
    }
    return place < stage->n_ranks ? place : PST_NONE;
}

/* The replica of the stage that a rank is, or is a part of; PST_NONE: it does not hold the stage.
 */
static inline uint32_t pst_plan_replica(const struct pst_plan_stage *stage, uint32_t rank)
{
    const uint32_t place = pst_plan_place(stage, rank);

    return place != PST_NONE ? place / stage->tensor : PST_NONE;
}

/* Which part of its replica a rank of the stage is. */
static inline uint32_t pst_plan_part(const struct pst_plan_stage *stage, uint32_t rank)
{
    return pst_plan_place(stage, rank) % stage->tensor;
}

/* Micro-batches of a stage from one update of its weights to the next. */
static inline uint32_t pst_rule_unit(uint32_t version_rule, uint32_t n_in_batch)
{
    return version_rule == PST_VERSION_STASHED ? 1 : n_in_batch;
}

static inline bool pst_rule_is_known(uint32_t version_rule)
{
    return version_rule >= PST_VERSION_SYNC && version_rule <= PST_VERSION_STASHED;
}

/* Batches overlap. */
static inline bool pst_rule_is_asynchronous(uint32_t version_rule)
{
    return version_rule != PST_VERSION_SYNC;
}

/* The first sample of a replica's part of a micro-batch. */
static inline uint32_t pst_plan_first_sample(const struct pst_plan_stage *stage, uint32_t replica,
                                             uint32_t microbatch)
{
    return microbatch * stage->microbatch_size + replica * pst_plan_samples(stage);
}

/* The replica of a stage that has this sample, and its (first) rank. */
static inline uint32_t pst_plan_replica_of(const struct pst_plan_stage *stage, uint32_t sample)
{
    return stage->n_ranks > 1 ? sample / pst_plan_samples(stage) % pst_plan_replicas(stage) : 0;
}

static inline uint32_t pst_plan_rank_of(const struct pst_plan_stage *stage, uint32_t sample)
{
    return stage->ranks[pst_plan_replica_of(stage, sample) * stage->tensor];
}

/* Tensors that stage `from` makes and stage `to` reads. Sorted by (from, to). */
struct pst_plan_edge {
    uint32_t from, to;
    uint32_t n_tensors;
    const uint32_t *tensors; /* ascending */
    uint64_t bytes_per_sample;
};

/* A parameter with several using operators. */
struct pst_plan_tie {
    uint32_t parameter;
    uint32_t n_stages;
    const uint32_t *stages; /* ascending, distinct; the first holds the owner */
};

/* Lists of a device; the values are PST_PART_* - 1. A synchronous plan has only the body. */
enum pst_part { PST_FILL = 0, PST_BODY = 1, PST_DRAIN = 2, PST_PARTS = 3 };

struct pst_plan_device {
    uint32_t n_instrs;
    const struct pst_instr *body; /* one step; asynchronous: from one batch's end to the next's */
    uint32_t n_fill, n_drain;     /* 0 in synchronous plans */
    const struct pst_instr *fill, *drain;
    uint64_t peak_bytes;  /* largest live sum */
    uint64_t arena_bytes; /* packed size: what the executor allocates and reaches */
    uint64_t host_bytes;  /* packed size of what is offloaded, in host memory */
    uint64_t lacks_bytes; /* bytes below the plan's capacity, which is the largest device's */
    const char *kind;     /* name of the kind of device; NULL: all are alike */
};

/* Values that a plan file states although they follow from the rest of it; the proof compares. */
struct pst_plan_stated {
    uint32_t versions;     /* the most weight versions of a stage */
    uint64_t *stage_peaks; /* [n_stages] peak_bytes of the first device */
};

struct pst_plan {
    struct pst_arena arena;
    uint32_t batch;
    uint32_t step_batch; /* samples of one step: batch, but where that is several (unrolled) */
    uint32_t slices;     /* those of the graph: samples are slices of sequences where it is not 1 */
    uint32_t version_rule; /* PST_VERSION_* */
    uint32_t zero;     /* 1: each replica of a stage updates a piece of its parameters, and has the
                          optimizer's state of no other (shards.h); 2: and accumulates gradients of
                          no other, for which each pass that makes them sums them; 3: and keeps no other
                          of what passes read, which gather the rest; 0: all of them */
    uint32_t prefetch; /* zero 2 and 3: buckets whose weights passes gather ahead of the one that
                          they read next; 0: and they wait for every meeting at once */
    uint32_t copies;   /* of the whole model, on the same devices in another order; 1, 2 */
    /* Asynchronous: n batches run as fill, n - 1 times body, drain; micro-batch numbers (and
       samples) count from the first of the batch that the part closes (fill: of the first), so
       they go up to twice the batch. Waits name instructions of the same part; what a part leaves
       open is waited for in the parts that follow, by rule: a SEND or RECV by the next F (rows of
       activations) or B, BW (gradients) of the stage that has the buffer, a REDUCE, TIE or NORM by
       the next TIE, NORM or STEP, an OFFLOAD that no pass of its part waits for by the next F of
       its stage; a FETCH waits for its OFFLOAD of an earlier part. pst_plan_unroll writes these
       waits out. drain_every is n, 0: the whole run is one stretch. */
    bool asynchronous;
    uint32_t drain_every;
    bool spread_sends;  /* for lowering: several buffers for what a stage sends where one would
                           keep passes waiting */
    bool barrier;       /* STEP waits for NORM, the norm of the whole model; without it there is
                           no NORM, and STEP waits for the sums of its own stage alone */
    bool deferred_step; /* asynchronous: the STEP of batch t comes at the end of a part that runs
                           backward passes of batch t + 1 already, so each stage has two gradient
                           accumulators, used in turn; else STEP follows the last of its batch */
    uint32_t n_stages, n_edges, n_ties, n_devices; /* n_devices: ranks */
    struct pst_plan_stage *stages;
    struct pst_plan_edge *edges;
    struct pst_plan_tie *ties;
    struct pst_plan_device *devices;
    uint64_t step_ns;  /* predicted */
    const char *times; /* source of the times: "described", "file", "measured"; NULL: unknown */
    const struct pst_plan_stated *stated; /* of a file; else NULL */
    uint32_t kept_output;     /* evaluations: a tensor, the logits, that is kept to the end of the
                                 list on its rank; else PST_NONE */
    uint32_t optimizer_slots; /* f32 state values per parameter: 0 sgd, 1 momentum, 2 adam */
    uint64_t capacity_bytes;  /* of the largest device; UINT64_MAX: no limit */
    /* provenance */
    uint64_t graph_digest;
    const char *config_json; /* the effective config as JSON object text; rebuilds the graph */
    const char *partitioner, *scheduler, *memopt; /* "id version" */
    bool isolated;                                /* the strategies ran in a process of their own */
};

/* Ranks of a stage in one of the plan's copies. */
static inline uint32_t pst_plan_width(const struct pst_plan *plan,
                                      const struct pst_plan_stage *stage)
{
    return stage->n_ranks / plan->copies;
}

static inline const uint32_t *pst_plan_copy_ranks(const struct pst_plan *plan,
                                                  const struct pst_plan_stage *stage, uint32_t copy)
{
    return stage->ranks + copy * pst_plan_width(plan, stage);
}

/* Returns true if two stages share a rank: then they share all. */
static inline bool pst_plan_shares(const struct pst_plan_stage *a, const struct pst_plan_stage *b)
{
    return a->ranks[0] == b->ranks[0] || pst_plan_replica(a, b->ranks[0]) != PST_NONE;
}

/* The lowest rank of a stage, which those that share its ranks have in common. */
static inline uint32_t pst_plan_lowest(const struct pst_plan_stage *stage)
{
    uint32_t lowest = stage->ranks[0];

    for (uint32_t r = 1; r < stage->n_ranks; r++) {
        lowest = stage->ranks[r] < lowest ? stage->ranks[r] : lowest;
    }
    return lowest;
}

/* The most parts that replicas of a stage have; 1: each replica is a rank. */
static inline uint32_t pst_plan_tensor(const struct pst_plan *plan)
{
    uint32_t most = 1;

    for (uint32_t s = 0; s < plan->n_stages; s++) {
        most = plan->stages[s].tensor > most ? plan->stages[s].tensor : most;
    }
    return most;
}

/* Numbers groups in the order of their ranks. io_group_of: [rank] the size of the group of stages
   that begins there, and then the rank's group. Ranks without stages make groups as large as the
   others, where those are all of one size and begin at multiples of it, else of one. Returns how
   many. */
uint32_t pst_plan_number_groups(uint32_t n_ranks, uint32_t *io_group_of);
/* The group of each rank in the plan of groups that this one is, or comes of; ranks of a group are
   its parts, in a row. ret_group_of: n_devices. Returns how many groups. */
uint32_t pst_plan_groups(const struct pst_plan *plan, uint32_t *ret_group_of);

/* plan_digest.c: of what it does. Plans of one model that are equal but for who made them, and what
   was foretold of them, have the same. */
struct pst_hash pst_plan_digest(const struct pst_plan *plan);

/* An empty plan for n ranks. */
void pst_plan_create(const struct pst_graph *graph, uint32_t batch, uint32_t n_devices,
                     struct pst_plan **ret_plan);
void pst_plan_destroy(struct pst_plan *plan);

/* Bytes that the plan may take of a device; UINT64_MAX: no limit. */
static inline uint64_t pst_plan_capacity(const struct pst_plan *plan, uint32_t rank)
{
    return pst_sat_left(plan->capacity_bytes, plan->devices[rank].lacks_bytes);
}
/* Bytes by which the smallest device of a stage is below the plan's capacity. */
static inline uint64_t pst_plan_lacks(const struct pst_plan *plan,
                                      const struct pst_plan_stage *stage)
{
    uint64_t most = 0;

    for (uint32_t r = 0; r < stage->n_ranks; r++) {
        uint64_t lacks = plan->devices[stage->ranks[r]].lacks_bytes;

        most = lacks > most ? lacks : most;
    }
    return most;
}
/* Capacities and kinds of another plan for the same devices. */
void pst_plan_copy_devices(struct pst_plan *plan, const struct pst_plan *from);

/* Appends a stage; arrays are copied; actions all keep. Stages come in topological order. */
void pst_plan_add_stage(struct pst_plan *plan, const uint32_t *nodes, uint32_t n_nodes,
                        const uint32_t *ranks, uint32_t n_ranks, uint32_t microbatch_size,
                        uint32_t k);

/* Position of an operator in the stage; PST_NONE: it is elsewhere. */
uint32_t pst_plan_node(const struct pst_plan_stage *stage, uint32_t op);

/* The logical device of each rank: ranks that hold the same stages, in the same copies, are one,
   and so is every rank without any; numbered by their lowest ranks. ret_device_of: n_devices.
   Returns how many. */
uint32_t pst_plan_logical(const struct pst_plan *plan, uint32_t *ret_device_of);

/* Number of devices that hold a stage; as text, such as "4" or "15 of 32": returns text. */
uint32_t pst_plan_used_devices(const struct pst_plan *plan);
#define PST_DEVICES_TEXT 32
char *pst_plan_devices_text(const struct pst_plan *plan, char text[PST_DEVICES_TEXT]);

/* Counts from the lists: the most micro-batches that the stage holds between F and W or BW; and the
   longest row of F after its first backward pass, or 1 if no F follows that. */
void pst_plan_count(const struct pst_plan *plan, uint32_t s, uint32_t *ret_held, uint32_t *ret_row);

/* Returns true if a rank holds one of the stages that use the tied parameter. */
bool pst_plan_tie_has(const struct pst_plan *plan, uint32_t tie, uint32_t rank);

/* Does MERGE add anything up for the stage? */
bool pst_plan_merges(const struct pst_plan_stage *stage, const struct pst_graph *graph);

/* Derives edges and ties from graph and stages. Call once after the last stage. */
pst_status pst_plan_connect(struct pst_plan *plan, const struct pst_graph *graph,
                            struct pst_error *err);

/*
 * Makes a plan of ranks of a plan of groups. A group is as many ranks as devices share the
 * operators of its stages; ranks are numbered group by group. Each has the list of its group, but
 * for what it moves: part p of a receiver of T parts gets all from part p t / T, rounded down, of a
 * sender of t. So a SEND is in the list of a part as often as there are parts that receive from it,
 * maybe not at all. n_ranks: of the result; groups without stages are alike. `plan` does not
 * change.
 */
void pst_plan_expand(const struct pst_plan *plan, const struct pst_graph *graph, uint32_t n_ranks,
                     struct pst_plan **ret_plan);

/* One pass in the order of its device, as a scheduler emitted it. */
struct pst_pass {
    uint8_t op; /* PST_PASS_* */
    uint32_t stage, microbatch;
};

/*
 * From the order of passes on each rank to full lists: adds SEND, RECV, REDUCE, TIE, NORM, STEP and
 * all waits, by one global order of transfers (docs/plan.md, "lowering"). The ranks of a logical
 * device have the same order.
 * PST_ERR_BUG kind plan.illegal: the order cannot be satisfied; details list the waiting ranks.
 * With training = false (forward passes only) there is no reduction and no step.
 */
pst_status pst_plan_lower(struct pst_plan *plan, const struct pst_graph *graph,
                          const struct pst_cost_model *cost, const struct pst_pass *const *orders,
                          const uint32_t *n_passes, bool training, struct pst_error *err);

/* As pst_plan_lower of a training plan. ret_start_ns[rank][position], ret_end_ns: when each pass
   begins and ends by the times that lowering uses: as early as its order allows, with idle links.
 */
pst_status pst_plan_lower_timed(struct pst_plan *plan, const struct pst_graph *graph,
                                const struct pst_cost_model *cost,
                                const struct pst_pass *const *orders, const uint32_t *n_passes,
                                uint64_t *const *ret_start_ns, uint64_t *const *ret_end_ns,
                                struct pst_error *err);

/*
 * Lowers an asynchronous plan: passes[part][rank][position], PST_FILL to PST_DRAIN. Every
 * repetition of body runs one list, so nothing is placed by time: a SEND comes right after its
 * producer, a RECV one pass before its consumer, in the part before where that is the same each
 * time. Where NORM, or a TIE of several stages, must see other ranks, it and STEP come after
 * passes of the next batch, as many as the cost model says that the rank has run by the time the
 * last one ends its batch; the parts are cut there. Sets asynchronous and deferred_step; reads
 * barrier. PST_ERR_BUG plan.illegal, PST_ERR_UNSUPPORTED plan.mismatch.
 */
pst_status pst_plan_lower_parts(struct pst_plan *plan, const struct pst_graph *graph,
                                const struct pst_cost_model *cost,
                                const struct pst_pass *const *const passes[PST_PARTS],
                                const uint32_t *const n_passes[PST_PARTS], struct pst_error *err);

/*
 * An asynchronous plan of n_batches batches as one list a rank: the lists of the parts one after
 * the other, with batch x n_batches samples and micro-batches numbered through, and the waits
 * between parts among the others. drain_every: batches from fill to drain, after which comes the
 * next fill; 0: all. (The plan's own drain_every is ignored.) What lists and stages do not hold
 * themselves is shared with `plan`, which must outlive it. Micro-batch j of a stage belongs to
 * batch j / its n_microbatches in `plan`. Its own `asynchronous` is false.
 */
pst_status pst_plan_unroll(const struct pst_plan *plan, uint32_t n_batches, uint32_t drain_every,
                           struct pst_plan **ret_unrolled, struct pst_error *err);

/* Makes a view of a plan whose step has the samples of n batches. Its stages are in `arena`; all
   else belongs to `plan`, which must outlive it. */
void pst_plan_view(const struct pst_plan *plan, uint32_t n_batches, struct pst_arena *arena,
                   struct pst_plan *ret_view);

/*
 * Instructions that a part leaves open are in one of 2 x n_stages + 1 buckets: forward and backward
 * of each stage, then sums. These return the bucket of an open instruction, and the bucket that an
 * instruction waits for; PST_NONE: none.
 */
uint32_t pst_plan_bucket_of(const struct pst_plan *plan, const struct pst_instr *instr);
uint32_t pst_plan_bucket_ended(const struct pst_plan *plan, const struct pst_instr *instr);

/* Number of FETCH at the head of a part, before its first other instruction. */
static inline uint32_t pst_plan_apart(const struct pst_instr *list, uint32_t n)
{
    uint32_t i = 0;

    while (i < n && list[i].op == PST_I_FETCH) {
        i++;
    }
    return i;
}

/* The origin of instruction i of an unrolled list: its part, the batch that the part closes (fill:
   the first of the stretch), and its index in the part. */
struct pst_origin {
    enum pst_part part;
    uint32_t batch, instr;
};
struct pst_origin pst_plan_origin(const struct pst_plan *plan, uint32_t rank, uint32_t instr,
                                  uint32_t n_batches, uint32_t drain_every);

/* One of the lists of a device. */
static inline const struct pst_instr *pst_plan_list(const struct pst_plan_device *device,
                                                    enum pst_part part, uint32_t *ret_n)
{
    *ret_n = part == PST_FILL   ? device->n_fill
             : part == PST_BODY ? device->n_instrs
                                : device->n_drain;
    return part == PST_FILL ? device->fill : part == PST_BODY ? device->body : device->drain;
}

/* Slots for the weights of a stage. Update u, counted from 0 over the run, makes version u + 1,
   which goes to slot (u + 1) modulo their number; what makes the gradient of update u reads version
   max(u - (slots - 1), 0), which is in the same slot until then. */
static inline uint32_t pst_plan_slots(const struct pst_plan *plan, uint32_t stage)
{
    return plan->version_rule == PST_VERSION_DELAYED   ? 2
           : plan->version_rule == PST_VERSION_STASHED ? plan->stages[stage].weight_versions
                                                       : 1;
}

/* Forward-only twin of a plan on the same stages: F of every micro-batch, for evaluation. The
   number of micro-batches of a stage is batch / its size; batch is a multiple of each size.
   microbatch: size of all stages; 0: each has that of the plan. The twin is lowered as a plan of
   groups, whose costs `cost` has: those of the ranks where a replica is one. */
pst_status pst_plan_forward_twin(const struct pst_plan *plan, const struct pst_graph *graph,
                                 const struct pst_cost_model *cost, uint32_t batch,
                                 uint32_t microbatch, struct pst_plan **ret_plan,
                                 struct pst_error *err);

/* JSON file form; write is atomic (temporary file and rename). read checks form and limits only. */
pst_status pst_plan_write(const struct pst_plan *plan, const struct pst_graph *graph,
                          const char *path, struct pst_error *err);
char *pst_plan_to_json(const struct pst_plan *plan, const struct pst_graph *graph); /* free() it */
/* config_json first, so that the caller can rebuild the graph before the plan is read whole. */
pst_status pst_plan_read_config(const char *path, char **ret_config_json, struct pst_error *err);
/* plan_degrees.c. Before there is the graph that a plan was made for: how many devices share each
   operator of `whole`, by the stages in the text; that of the first stage for operators in none.
   Errors: input.syntax; what else is wrong is for pst_plan_parse to find. */
pst_status pst_plan_read_degrees(const char *name, const char *text, size_t length,
                                 const struct pst_graph *whole, uint16_t *ret_degree_of,
                                 struct pst_error *err);
#define PST_PLAN_FILE_BYTES ((size_t)2 << 30) /* a larger file is none */
pst_status pst_plan_read(const char *path, const struct pst_graph *graph,
                         struct pst_plan **ret_plan, struct pst_error *err);

/* As pst_plan_read, from text that ends in NUL; `name` is used in messages. */
pst_status pst_plan_parse(const char *name, const char *text, size_t length,
                          const struct pst_graph *graph, struct pst_plan **ret_plan,
                          struct pst_error *err);

const char *pst_instr_name(uint32_t op);        /* "F", "SEND", ... */
const char *pst_payload_name(uint32_t payload); /* "act", "grad", "evict", "load" */

static inline bool pst_instr_copies(const struct pst_instr *instr)
{
    return instr->op == PST_I_OFFLOAD || instr->op == PST_I_FETCH;
}

/* SEND or RECV of a guest: `stage` is a stage and not an edge. */
static inline bool pst_instr_moves_guest(const struct pst_instr *instr)
{
    return (instr->op == PST_I_SEND || instr->op == PST_I_RECV) &&
           instr->payload >= PST_PAYLOAD_EVICT;
}

/* How often each operator of a stage runs again in its backward passes: of those with
   PST_ACTION_RECOMPUTE the ones whose results a backward pass of the stage reads, or one behind
   them that runs again; with replays of its own (sequence.h) as often as those say and something
   reads what comes of it. ret_times: n_nodes. */
void pst_plan_replayed(const struct pst_plan_stage *stage, const struct pst_graph *graph,
                       uint32_t *ret_times);

/* Marks the tensors that a stage's backward passes read, replays included. ret_saved: n_tensors. */
void pst_plan_saved(const struct pst_plan_stage *stage, const struct pst_graph *graph,
                    bool *ret_saved);

/* Bytes of saved results that OFFLOAD and FETCH of each operator of a stage move on each rank; 0 if
   its action is not PST_ACTION_OFFLOAD or nothing is saved. ret_bytes: n_nodes. */
void pst_plan_offload_bytes(const struct pst_plan_stage *stage, const struct pst_graph *graph,
                            uint64_t *ret_bytes);

/* guests.c: the guest of the stage for this micro-batch; NULL: none. */
const struct pst_plan_guest *pst_plan_guest_of(const struct pst_plan_stage *stage,
                                               uint32_t microbatch);
/* The rank that holds the guest of the rank at a place of the stage: guest->rank and on, or with
   several replicas the rank at that place of the stage that begins there. PST_NONE: there is no
   such rank, or no stage with as many begins there. */
uint32_t pst_plan_guest_rank(const struct pst_plan *plan, const struct pst_plan_stage *stage,
                             const struct pst_plan_guest *guest, uint32_t place);
/* Lists the tensors of a guest: results of the stage's operators with PST_ACTION_PEER that a
   backward pass reads, in the order of its nodes. ret_tensors comes from the arena. */
void pst_plan_guest_tensors(const struct pst_plan_stage *stage, const struct pst_graph *graph,
                            struct pst_arena *arena, uint32_t **ret_tensors, uint32_t *ret_n);
/* When it leaves, for lowering: its F ends at leave_ns, the pass beside which it runs at until_ns.
   If the pass that the other device runs at leave_ns ends, at other_ns, so early that there is time
   enough behind it, then; else at once. */
static inline uint64_t pst_plan_guest_leaves(uint64_t leave_ns, uint64_t until_ns,
                                             uint64_t other_ns, uint64_t transfer_ns)
{
    bool later = other_ns > leave_ns && other_ns < until_ns &&
                 transfer_ns <= (until_ns - other_ns) / 2; /* times are estimates */

    return later ? other_ns : leave_ns;
}

/* The bytes of one of them on each rank of the stage. */
uint64_t pst_plan_guest_bytes(const struct pst_plan_stage *stage, const struct pst_graph *graph,
                              const uint32_t *tensors, uint32_t n);

#endif
