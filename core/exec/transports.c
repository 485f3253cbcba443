/* SPDX-License-Identifier: Apache-2.0
 *
 * The executor and a transport, besides transfers and sums: which ranks have something to do
 * with each other, the links of devices with a clock, where buffers of devices are and how many are
 * open at once; that a group of transfers is complete, and whether all went well.
 */
#include "exec/state.h"

#include "base/fault.h"

/* --- devices with a clock --------------------------------------------------------------------- */

/* A message is all the tensors of an edge, however many pieces. */
static struct pst_transfer_time transfer(void *context, uint32_t from, uint32_t to, uint64_t tag,
                                         uint64_t bytes)
{
    const struct pst_exec *exec = context;
    const struct pst_exec_links *links = exec->config.links;

    return (struct pst_transfer_time){
        .ns = links->transfer_ns(links->context, bytes, from, to),
        .latency_ns = links->transfer_ns(links->context, 0, from, to),
        .follows = exec_tag_part(tag) > 0,
    };
}

static uint64_t meeting_ns(void *context, struct pst_meet_bytes bytes, const uint32_t *ranks,
                           uint32_t n_ranks)
{
    const struct pst_exec *exec = context;
    const struct pst_exec_links *links = exec->config.links;

    return links->meeting_ns(links->context, bytes, ranks, n_ranks);
}

static uint32_t node_of_rank(void *context, uint32_t rank)
{
    const struct pst_exec *exec = context;
    const struct pst_exec_links *links = exec->config.links;

    return links->node(links->context, rank);
}

struct pst_transport_times exec_clock_times(struct pst_exec *exec)
{
    return (struct pst_transport_times){
        .context = exec,
        .transfer = transfer,
        .meeting_ns = meeting_ns,
        .node = node_of_rank,
    };
}

void exec_clock_post(struct exec_rank *rank)
{
    const struct pst_device_ops *device = rank->exec->config.device;
    const struct pst_exec_links *links = rank->exec->config.links;

    if (device->advance != NULL && links->post_ns != NULL) {
        device->advance(rank->device,
                        device->now(rank->device) + links->post_ns(links->context, rank->index));
    }
}

void exec_clock_begin(struct exec_rank *rank, const struct exec_task *task)
{
    const struct pst_device_ops *device = rank->exec->config.device;

    if (device->advance != NULL && (task->command == EXEC_STEP || task->command == EXEC_EVAL)) {
        device->advance(rank->device, task->posted_ns);
    }
}

void exec_clock_finish(struct exec_rank *rank)
{
    if (rank->exec->config.device->finish != NULL) {
        rank->exec->config.device->finish(rank->device);
    }
}

void exec_clock_touch(struct exec_rank *rank, const void *data, uint64_t bytes)
{
    if (rank->exec->config.device->touch != NULL) {
        rank->exec->config.device->touch(rank->device, data, bytes);
    }
}

/* --- what is open at once --------------------------------------------------------------------- */

/* So that a transport which copies through the host has room for it before the first step. Of an
   asynchronous plan what one part leaves open is added to what any other has open itself. */
struct open {
    uint32_t transfers, meetings;
};

static uint32_t larger_of(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static void raise_to(uint64_t *most, uint64_t bytes)
{
    *most = bytes > *most ? bytes : *most;
}

/* Sizes, of all instructions. */
static void measure(const struct exec_list *list, struct pst_transport_needs *needs)
{
    for (uint32_t i = 0; i < list->program->n_parts; i++) {
        raise_to(&needs->transfer_bytes, list->program->parts[i].bytes);
    }
    for (uint32_t i = 0; i < list->program->n_instrs; i++) {
        const struct pst_meeting *meeting = list->instrs[i].meeting;
        uint64_t bytes = 0, n = 0;

        for (uint32_t p = 0; meeting != NULL && p < meeting->n_parts; p++) {
            n += pst_meet_buffers(meeting, p);
            bytes +=
                pst_meet_buffers(meeting, p) * meeting->parts[p].elems * pst_meeting_size(meeting);
        }
        raise_to(&needs->meeting_bytes, bytes);
        raise_to(&needs->meeting_buffers, n);
    }
}

static void end_posts(struct exec_list *list, uint32_t index, struct open *open)
{
    struct exec_instr *instr = &list->instrs[index];

    if (instr->pending) {
        instr->pending = false;
        *(instr->meeting != NULL ? &open->meetings : &open->transfers) -=
            instr->meeting != NULL ? 1 : list->program->lists[index].n_parts;
    }
}

static void begin_posts(struct exec_list *list, uint32_t index, struct open *open)
{
    const uint32_t op = list->program->instrs[index].op;
    struct exec_instr *instr = &list->instrs[index];

    const bool meets = op != PST_I_TIE && instr->meeting != NULL;

    instr->pending = op == PST_I_SEND || op == PST_I_RECV || meets;
    open->transfers += list->program->lists[index].n_parts;
    open->meetings += meets;
}

/* As the step loop posts and waits; what is pending is as it was when this returns. */
static void walk_section(struct exec_list *list, const struct pst_program_section *section,
                         struct open *most, struct open *left)
{
    const uint32_t first = section->first_instr, n = section->n_instrs;
    struct open open = {0, 0};

    for (uint32_t i = first; i < first + n; i++) {
        const struct pst_instr *instr = &list->program->instrs[i];
        const bool sums = instr->op == PST_I_TIE || instr->op == PST_I_NORM;

        for (uint32_t w = 0; w < instr->n_waits; w++) {
            end_posts(list, first + instr->waits[w], &open);
        }
        for (uint32_t s = first; sums && s < i; s++) {
            if (list->instrs[s].meeting != NULL) {
                end_posts(list, s, &open);
            }
        }
        begin_posts(list, i, &open);
        most->transfers = larger_of(most->transfers, open.transfers);
        most->meetings = larger_of(most->meetings, open.meetings + (instr->op == PST_I_TIE));
    }
    left->transfers = larger_of(left->transfers, open.transfers);
    left->meetings = larger_of(left->meetings, open.meetings);
    for (uint32_t i = first; i < first + n; i++) {
        end_posts(list, i, &open);
    }
}

static void count_needs(struct exec_list *list, struct pst_transport_needs *needs)
{
    struct open most = {0, 0}, left = {0, 0};

    if (list->program == NULL) {
        return;
    }
    measure(list, needs);
    for (uint32_t s = 0; s < list->program->n_sections; s++) {
        walk_section(list, &list->program->sections[s], &most, &left);
    }
    if (!list->plan->asynchronous) {
        left = (struct open){0, 0};
    }
    needs->transfers = larger_of(needs->transfers, most.transfers + left.transfers);
    needs->meetings = larger_of(needs->meetings, most.meetings + left.meetings);
}

/* Running statistics go to other replicas one after the other. */
static void count_state(const struct exec_rank *rank, struct pst_transport_needs *needs)
{
    const struct pst_exec_config *config = &rank->exec->config;
    const struct pst_program *program = config->programs[rank->index];

    for (uint32_t s = 0; s < config->plan->n_stages; s++) {
        const struct pst_plan_stage *stage = &config->plan->stages[s];
        const bool here =
            pst_plan_replicas(stage) > 1 && pst_plan_replica(stage, rank->index) != PST_NONE;

        for (uint32_t n = 0; here && n < stage->n_nodes; n++) {
            for (uint32_t i = 0; i < config->graph->ops[stage->nodes[n]].n_state; i++) {
                const uint32_t value = program->state_values[2 * (size_t)stage->nodes[n] + i];

                raise_to(&needs->transfer_bytes, program->values[value].bytes);
                needs->transfers = larger_of(needs->transfers, 1);
            }
        }
    }
}

static struct pst_transport_needs needs_of(void *context, uint32_t index)
{
    struct pst_exec *exec = context;
    struct exec_rank *rank = &exec->ranks[index];
    struct pst_transport_needs needs = {0};

    count_needs(&rank->train, &needs);
    count_needs(&rank->eval, &needs);
    count_state(rank, &needs);
    return needs;
}

/* --- devices that stand apart ----------------------------------------------------------------- */

static void *region_of_rank(void *context, uint32_t rank, uint64_t *ret_bytes)
{
    const struct pst_exec *exec = context;

    *ret_bytes = exec->ranks[rank].arena_bytes;
    return exec->ranks[rank].base;
}

struct pst_transport_memory exec_async_memory(struct pst_exec *exec)
{
    return (struct pst_transport_memory){
        .context = exec,
        .region = region_of_rank,
        .timed = exec->config.recorder != NULL,
        .needs = needs_of,
    };
}

/* --- ranks and what they have posted ---------------------------------------------------------- */

/* Why two ranks share a stage. */
struct shared {
    bool replicas; /* the same part of two replicas */
    bool parts;    /* two parts of one replica */
};

static struct shared shared_in(const struct pst_plan *plan, uint32_t rank, uint32_t other)
{
    struct shared shared = {false, false};

    for (uint32_t s = 0; plan != NULL && s < plan->n_stages; s++) {
        const struct pst_plan_stage *stage = &plan->stages[s];
        const uint32_t one = pst_plan_place(stage, rank), two = pst_plan_place(stage, other);

        if (one != PST_NONE && two != PST_NONE && one != two) {
            shared.replicas |= one % stage->tensor == two % stage->tensor;
            shared.parts |= one / stage->tensor == two / stage->tensor;
        }
    }
    return shared;
}

static bool moves_between(const struct pst_program *program, uint32_t other)
{
    for (uint32_t i = 0; i < program->n_instrs; i++) {
        const struct pst_instr *instr = &program->instrs[i];

        if ((instr->op == PST_I_SEND || instr->op == PST_I_RECV) && instr->peer == other) {
            return true;
        }
    }
    return false;
}

/* Replicas share running statistics by transfers, and gradients by sums; parts share results. */
uint32_t exec_meets(void *context, uint32_t rank, uint32_t other)
{
    const struct pst_exec *exec = context;
    const struct pst_exec_config *config = &exec->config;
    const struct pst_plan *plan = config->plan;
    const struct shared train = shared_in(plan, rank, other);
    const struct shared eval = shared_in(config->eval_plan, rank, other);
    bool tied = false;
    const bool transfers =
        train.replicas || eval.replicas || moves_between(config->programs[rank], other) ||
        (config->eval_plan != NULL && moves_between(config->eval_programs[rank], other));

    for (uint32_t t = 0; t < plan->n_ties && !tied; t++) {
        tied = pst_plan_tie_has(plan, t, rank) && pst_plan_tie_has(plan, t, other);
    }
    return (transfers ? PST_MEETS_TRANSFER : 0u) |
           (train.replicas || train.parts || eval.parts || tied ? PST_MEETS_SUM : 0u);
}

pst_status exec_flush(struct exec_rank *rank, struct pst_error *err)
{
    const struct pst_transport_ops *transport = rank->exec->config.transport;

    return transport->flush != NULL ? transport->flush(rank->exec->transport, rank->index, err)
                                    : PST_OK;
}

pst_status exec_check(struct exec_rank *rank, struct pst_error *err)
{
    const struct pst_transport_ops *transport = rank->exec->config.transport;

    return transport->ordered && transport->check != NULL
               ? transport->check(rank->exec->transport, rank->index, err)
               : PST_OK;
}

bool exec_detach(struct exec_rank *rank)
{
    const struct pst_transport_ops *transport = rank->exec->config.transport;

    return transport->detach == NULL || rank->exec->transport == NULL ||
           transport->detach(rank->exec->transport, rank->index);
}

pst_status exec_fault(const struct exec_rank *rank, const char *point, struct pst_error *err)
{
    if (!pst_fault(point, rank->index)) {
        return PST_OK;
    }
    pst_fail(err, PST_ERR_UNSUPPORTED, "run.fault", "rank %u: PENSTOCK_FAULT at %s", rank->index,
             point);
    err->exit_code = 1;
    return PST_ERR_UNSUPPORTED;
}

pst_status exec_fail_post(const struct exec_rank *rank, pst_status status, const char *what,
                          uint32_t whose, struct pst_error *err)
{
    const struct pst_transport_ops *transport = rank->exec->config.transport;

    if (status == PST_ERR_CANCELLED) {
        status = transport->check == NULL
                     ? PST_OK
                     : transport->check(rank->exec->transport, rank->index, err);
        if (status != PST_OK) {
            return status;
        }
        return pst_fail(err, PST_ERR_CANCELLED, "run.aborted",
                        "rank %u: another rank stopped the run", rank->index);
    }
    return pst_fail(err, status, "transport.request", "rank %u cannot post %s %u", rank->index,
                    what, whose);
}
