/* SPDX-License-Identifier: Apache-2.0
 *
 * A plan lowered all the way down for one rank: every kernel call of its instruction list, every
 * buffer with its life, and the offsets of all buffers in one arena. From it the peak is known
 * before the run. Built by pst_program_create from plan, graph and cost model (for workspace
 * sizes); the executor binds it to an arena and runs it, the checker verifies it. Read-only once
 * built.
 *
 *   list    F0            SEND   B0                     STEP
 *   calls   k1  k2  k3     -     k3' k2' k1'             u
 *   ticks   0   1   2      3     4   5   6               7
 *
 *   arena   ^ offset
 *           |         [y3: 2-4 ]
 *           |     [y2: 1 --- 5  ]  [dy2: 5-6]      values: [first, last] tick
 *           | [y1: 0 ------- 6      ]
 *           | [weights, gradients, optimizer ..]   static values: all ticks
 *           +----------------------------------> tick
 *
 * Time inside a program is counted in ticks: every call of the list takes one tick, in list order,
 * and one more before it if it waits for copies, in which it does so; each instruction without
 * calls takes one tick too.
 */
#ifndef PST_PLAN_PROGRAM_H
#define PST_PLAN_PROGRAM_H

#include "plan/plan.h"
#include "plan/shards.h"

enum pst_value_kind {
    PST_V_WEIGHT = 0,    /* f32 master weights of a parameter */
    PST_V_WORKING = 1,   /* its copy in working dtype, where that is not f32 */
    PST_V_GRAD = 2,      /* accumulator of one (parameter, using operator) */
    PST_V_TIE = 3,       /* sum over the users of a tied parameter */
    PST_V_OPTIMIZER = 4, /* one optimizer slot of a parameter; slot PST_ROOM: room for
                            updates, shared by a stage's parameters */
    PST_V_STATE = 5,     /* running statistics of an operator */
    PST_V_INPUT = 6,     /* data of a micro-batch */
    PST_V_ACT = 7,       /* activation or aux of a micro-batch */
    PST_V_RECV = 8,      /* activation or gradient received from another rank */
    PST_V_DACT = 9,      /* gradient of an activation */
    PST_V_Z = 10,        /* what B leaves for W */
    PST_V_SCRATCH = 11,  /* gradient of one micro-batch before it is added */
    PST_V_WORKSPACE = 12,
    PST_V_FETCHED = 13,  /* activation or aux of a micro-batch, back from the host */
    PST_V_HOST = 14,     /* the same in host memory: its offset is in the rank's host arena */
    PST_V_RETURNED = 15, /* activation or aux of a micro-batch, back from another device */
    PST_V_GUEST = 16,    /* the same of a stage elsewhere, kept for it */
    PST_V_PAST = 17,     /* of slices of sequences: gradients of the keys and values of one, from
                            the slices behind it */
    PST_V_GATHERED = 18, /* a parameter that a pass gathers from its pieces (ZeRO 3) */
    PST_V_KINDS
};

enum { PST_ROOM = 2 };

/* Values of f32 state of a parameter under a plan with so many: Muon keeps one. */
static inline uint32_t pst_parameter_slots(const struct pst_parameter *parameter,
                                           uint32_t optimizer_slots)
{
    return parameter->muon != 0 && optimizer_slots > 1 ? 1 : optimizer_slots;
}

/* One buffer. Alive in ticks [first, last], both included; static ones in all. Buffers that copies
   read or write are alive while those may do so, and no longer. */
struct pst_value {
    uint8_t kind;
    bool is_static;
    uint32_t stage, microbatch;
    uint32_t what;   /* tensor, parameter or operator, by kind */
    uint32_t slot;   /* optimizer slot; output or z or contribution index; weights: the version */
    uint32_t period; /* asynchronous plans: micro-batches of the stage, counted from the start of
                        the run, whose remainder by this is `microbatch` take turns in the buffer,
                        which lives all the time; 0: it lives inside one section */
    uint64_t bytes;  /* exact */
    uint64_t offset; /* in the arena, a multiple of PST_VALUE_ALIGN */
    uint32_t first, last;
};

#define PST_VALUE_ALIGN 256
static inline uint64_t pst_value_align(uint64_t bytes)
{
    return (bytes + PST_VALUE_ALIGN - 1) / PST_VALUE_ALIGN * PST_VALUE_ALIGN;
}

enum pst_call_kind {
    PST_C_LOAD = 0,       /* out[0] := field `field` of samples [first_sample, + samples) */
    PST_C_KERNEL = 1,     /* op, pass; operands below */
    PST_C_SUM = 2,        /* out[0] := in[0] + in[1], dtype of tensor `op`, `samples` samples */
    PST_C_ACCUMULATE = 3, /* out[0] += in[0], elems floats */
    PST_C_LOSS = 4,       /* read in[0]: per-sample losses of samples [first_sample, + samples) */
    PST_C_SCATTER = 5, /* ZeRO 2: posts `meeting`, which sums the parts, gradients of a layer or of
                          a tied parameter, over the replicas; op = the parameter of the first */
    PST_C_GATHER = 6,  /* ZeRO 3: posts `meeting`, by which the parts, parameters of a layer or a
                          tied one, get the pieces of the replicas; op = the first of them */
    PST_C_WAIT = 7,    /* ends the meeting that the call `posted` calls before it has posted, in the
                          same pass; op as there */
    PST_C_ADD = 8      /* ZeRO 2: of in[0], gradients of parameter `op` that a SCATTER has summed,
                          the elems floats that the rank updates are added to out[0], or with
                          `begins` written there */
};

/*
 * Operands are value indices in program->operands from first_operand on, PST_NONE where absent.
 * LOAD, SUM, ACCUMULATE, LOSS, ADD: out, in0, in1; SCATTER, GATHER, WAIT: none of the three.
 * KERNEL, with the operator's counts: x[n_in] p[n_param] y[n_out] dy dx[n_in] add[n_in]
 *         z[PST_MAX_SCRATCH] dp[n_param] state[n_state] past[slices - 1] dpast[slices] workspace
 */
struct pst_program_call {
    uint8_t kind, pass, replay;
    uint32_t slice;                 /* of its sequences */
    uint32_t op;                    /* KERNEL: operator; LOAD, SUM: tensor */
    uint32_t first_sample, samples; /* of the step; asynchronous: of the batch that the part closes
                                       and, from the size of a batch on, of the one after it */
    uint32_t first_operand;
    uint32_t first_copy_wait, n_copy_waits;    /* rows of program->copy_waits: copies that must have
                                                  ended before it begins */
    uint64_t elems;                            /* ACCUMULATE, ADD */
    bool begins;                               /* ADD: the first micro-batch of an update */
    uint32_t posted;                           /* WAIT */
    const struct pst_program_meeting *meeting; /* GATHER, SCATTER; else NULL */
};

static inline uint32_t pst_call_ticks(const struct pst_program_call *call)
{
    return call->n_copy_waits > 0 ? 2 : 1;
}

/* Positions of the operands of a KERNEL call, counted from first_operand. */
struct pst_operands {
    uint32_t x, p, y, dy, dx, add, z, dp, state, past, dpast, workspace, count;
};

static inline struct pst_operands pst_operands_of(const struct pst_op *op)
{
    struct pst_operands at;

    at.x = 0;
    at.p = at.x + op->n_in;
    at.y = at.p + op->n_param;
    at.dy = at.y + op->n_out;
    at.dx = at.dy + 1;
    at.add = at.dx + op->n_in;
    at.z = at.add + op->n_in;
    at.dp = at.z + PST_MAX_SCRATCH;
    at.state = at.dp + op->n_param;
    at.past = at.state + op->n_state;
    at.dpast = at.past + (op->slices > 1 ? op->slices - 1 : 0);
    at.workspace = at.dpast + (op->slices > 1 ? op->slices : 0);
    at.count = at.workspace + 1;
    return at;
}

/* The ticks, calls, parts and copies of one instruction of the list. */
struct pst_program_instr {
    const struct pst_program_meeting *meeting; /* REDUCE, TIE, GATHER; NULL: the rank is alone */
    uint32_t first_tick, n_ticks;
    uint32_t first_call, n_calls;
    uint32_t first_part, n_parts;  /* SEND, RECV: buffers to move, rows of program->parts */
    uint32_t first_copy, n_copies; /* OFFLOAD, FETCH: rows of program->copies */
};

/*
 * A meeting of ranks, as one of them takes part in it (exec/transport.h). Members are the same, in
 * the same order, on all of them, and so are number, bytes and owners of the parts.
 */
struct pst_program_meeting {
    uint8_t kind; /* enum pst_meet_kind */
    uint32_t n_members, n_parts, n_order;
    const uint32_t *members; /* ranks */
    const struct pst_program_meet_part {
        uint32_t value;
        uint32_t owner;        /* member; PST_NONE: all */
        uint64_t begin, bytes; /* inside the value */
    } * parts;
    uint32_t n_sources;         /* of the only part of a TIE; 0: every part is its own */
    const uint32_t *sources;    /* values. GATHER in a pass: [n_parts] what the rank brings, from
                                   its first byte on; PST_NONE: another member brings the part */
    uint64_t source_begin;      /* inside each of them */
    const uint32_t (*order)[2]; /* [n_order] terms of a TIE: (member, its source) */
};

/*
 * One tensor that OFFLOAD moves to the host or FETCH back. OFFLOAD and FETCH are directly after a
 * pass and are posted when that pass begins: its own waits for transfers are over, those of its
 * calls for copies need not be. Rows are in list order; those to the host are one queue, those back
 * another, or both are one (link_directions = 2): each row begins when the one before it in its
 * queue has ended, it is posted, call `start_call` has ended, and row `after` has ended.
 */
struct pst_program_copy {
    uint32_t instr;       /* row of instrs */
    bool out;             /* to the host */
    uint32_t value, host; /* on the device; PST_V_HOST */
    uint64_t bytes;
    uint32_t start_call; /* row of calls, of the pass before it; PST_NONE: none */
    uint32_t after;      /* an earlier row; PST_NONE: none */
};

/*
 * Rows that calls wait for, and `after`, may be of another section, fill: its rows stand for those
 * of any earlier part, namely the row that last moved the same host value in the same direction. A
 * FETCH at the head of a part follows no pass and is posted when the list reaches it.
 */

/* One contiguous piece of a transfer. Both ends list the same pieces in the same order. */
struct pst_transfer_part {
    uint32_t value;
    uint64_t begin, bytes; /* inside the value */
};

/*
 * A parameter as this rank holds it.
 *
 * If passes read several versions, W(v) is in versions[v % n_versions], and update u
 * (pst_plan_slots) reads and writes versions[(u + 1) % n_versions]. For f32 these are masters, and
 * an update first copies the newest; else they are working copies beside one master, that of the
 * newest version. All start as W(0).
 */
struct pst_program_param {
    uint32_t parameter, stage; /* stage whose STEP updates it */
    struct pst_shard shard;    /* the elements that this rank updates; tie and optimizer state hold
                                  these alone, and so do the master weights if others are read */
    uint32_t weight, working;  /* values; working == weight for f32 */
    uint32_t n_versions;
    const uint32_t *versions; /* values; the first is `working` */
    struct pst_shard kept;    /* the elements that each of them has: all, or those of the shard */
    uint32_t tie;             /* value of the summed gradient, PST_NONE where not tied */
    uint32_t optimizer[2];    /* values or PST_NONE */
    uint32_t room;            /* value with room for its update, shared by the stage; PST_NONE:
                                 none */
    uint32_t n_grads;
    uint64_t grad_first;   /* the element that accumulators begin with: that of the shard where they
                              have no others, else 0 */
    const uint32_t *grads; /* accumulators, one per using operator on this rank; with deferred
                              STEP those of even batches, then n_grads of odd ones;
                              PST_NONE: of an empty shard */
    const uint32_t *grad_users; /* index of that user in graph->params[].users */
    bool owner;                 /* the rank adds its shard to the norm, and saves it: it is a rank
                                   of the first using stage, of the first replica if the shard is
                                   all, and the first part if the parts have the same */
};

/*
 * Instructions that run as one list: a synchronous step; a part of an asynchronous plan; an
 * evaluation. Sections that differ in nothing but the buffers of their values have different
 * phases: batch t runs in phase t % n_phases. Each has separate ticks, so values of one section
 * share memory with those of others.
 */
struct pst_program_section {
    uint8_t part;   /* enum pst_part */
    uint32_t phase; /* of the batch that the part closes; evaluation: version of the weights modulo
                       the number of phases */
    uint32_t first_instr, n_instrs; /* rows of instrs and lists; waits count from the first */
    uint32_t first_tick;
    uint32_t kept_output; /* value of the plan's kept_output, or PST_NONE */
};

struct pst_program {
    struct pst_arena arena;
    uint32_t rank;
    uint32_t n_instrs, n_calls, n_values, n_operands, n_parts, n_params, n_ticks;
    uint32_t n_copies, n_copy_waits;
    uint32_t n_sections, n_phases;        /* one of each in synchronous plans */
    struct pst_program_section *sections; /* phase by phase; in each by part */
    const struct pst_instr *instrs;       /* the plan's; asynchronous: copies, section by section */
    struct pst_program_instr *lists;
    struct pst_program_call *calls;
    uint32_t *operands;
    struct pst_value *values;
    struct pst_transfer_part *parts;
    struct pst_program_copy *copies;
    uint32_t *copy_waits;
    struct pst_program_param *params; /* ascending by parameter */
    uint32_t *state_values;           /* n_ops x 2: PST_V_STATE values of operators on this rank */
    uint64_t static_bytes;            /* offsets [0, static_bytes): the static values */
    uint64_t peak_bytes, arena_bytes; /* largest live sum; end of the highest value */
    uint32_t peak_tick;               /* the first with that sum */
    uint64_t host_bytes; /* end of the highest PST_V_HOST, which the others leave out */
    uint32_t *places;    /* slim programs: offsets of all values / PST_VALUE_ALIGN; else NULL. They
                            have no instructions, calls, operands, parts or copies; only values
                            alive at the peak; and parameters without values */
    uint32_t n_places;
};

typedef void pst_static_part(void *context, uint8_t kind, uint32_t slot, uint64_t bytes);
/* Calls part() for each buffer of a parameter that a rank, which updates shard_elems of it and has
   versions of kept_elems, holds for the whole run, except gradient accumulators (one for each user)
   and the room of a stage's updates. Callers may allocate them, or only add up their bytes. */
void pst_static_parts(const struct pst_parameter *parameter, uint64_t shard_elems,
                      uint64_t kept_elems, uint32_t n_versions, uint32_t optimizer_slots,
                      pst_static_part *part, void *context);

/* Two programs of one rank (training, evaluation) give static values the same offsets. */
pst_status pst_program_create(const struct pst_plan *plan, const struct pst_graph *graph,
                              const struct pst_cost_model *cost, uint32_t rank,
                              struct pst_program **ret_program, struct pst_error *err);
/* How complete the programs of a plan are. */
enum pst_program_form {
    PST_PROGRAM_WHOLE = 0,
    PST_PROGRAM_SLIM = 1, /* for reports: see struct pst_program */
    PST_PROGRAM_BUILT = 2 /* without a layout: values have lifetimes but no offsets */
};
/* Makes the programs of all ranks. ret_programs[plan->n_devices] must be NULL before; destroy each,
   also after a failure. Long lists use all processors; a slim program then becomes slim before the
   next one is begun. layouts: where a search keeps those that it found; NULL: it is none. */
struct pst_layouts;
pst_status pst_programs_create(const struct pst_plan *plan, const struct pst_graph *graph,
                               const struct pst_cost_model *cost, enum pst_program_form form,
                               struct pst_layouts *layouts, struct pst_program **ret_programs,
                               struct pst_error *err);
/* Writes into the plan what its programs take, which a file need not state. */
void pst_programs_state_memory(struct pst_program *const *programs, struct pst_plan *plan);
/* The whole program of a slim one, of the same plan, graph and cost model. Fails if they have
   other values than the ones whose offsets the slim program holds. */
pst_status pst_program_restore(const struct pst_plan *plan, const struct pst_graph *graph,
                               const struct pst_cost_model *cost, const struct pst_program *slim,
                               struct pst_program **ret_program, struct pst_error *err);
/* Calls work(context, rank) once for every rank, on all processors where lists are long, as
   pst_parallel does. */
void pst_plan_for_ranks(const struct pst_plan *plan, void (*work)(void *context, uint32_t rank),
                        void *context);
void pst_program_destroy(struct pst_program *program);

/* Adds a table of the bytes of each kind of value at the peak to err->details. */
void pst_program_explain(const struct pst_program *program, struct pst_error *err);

#endif
