/* SPDX-License-Identifier: Apache-2.0
 *
 * Creating and destroying an executor, and handing a task to all of its ranks.
 */
#include "exec/state.h"

#include <signal.h>
#include <stdlib.h>

#include "base/float_mode.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/util.h"
#include "plan/gathers.h"

#define DEFAULT_STALL_NS 600000000000u

/* Every rank takes part in the sum behind NORM once, before its first STEP, or none does. */
static pst_status check_section(const struct pst_program *program,
                                const struct pst_program_section *section, uint32_t n_expected,
                                struct pst_error *err)
{
    const struct pst_instr *instrs = program->instrs + section->first_instr;
    uint32_t n_norms = 0;
    bool early = false;

    if (section->part == PST_FILL) {
        n_expected = 0;
    }
    for (uint32_t i = 0; i < section->n_instrs; i++) {
        n_norms += instrs[i].op == PST_I_NORM;
        early = early || (instrs[i].op == PST_I_STEP && n_norms < n_expected);
    }
    if (n_norms != n_expected || early) {
        return pst_fail(err, PST_ERR_BUG, "plan.illegal",
                        "rank %u: %u NORM in the list where %u belongs, before any STEP",
                        program->rank, n_norms, n_expected);
    }
    return PST_OK;
}

static pst_status check_list(const struct pst_plan *plan, const struct pst_program *program,
                             uint32_t n_expected, struct pst_error *err)
{
    pst_status status = PST_OK;

    if (program->n_phases == 0 ||
        program->n_sections != program->n_phases * (plan->asynchronous ? PST_PARTS : 1)) {
        return pst_fail(err, PST_ERR_BUG, "plan.illegal", "rank %u: %u sections in %u phases",
                        program->rank, program->n_sections, program->n_phases);
    }
    for (uint32_t i = 0; i < program->n_sections && status == PST_OK; i++) {
        status = check_section(program, &program->sections[i], n_expected, err);
    }
    return status;
}

static bool list_has_norm(const struct pst_program *program)
{
    for (uint32_t i = 0; i < program->n_instrs; i++) {
        if (program->instrs[i].op == PST_I_NORM) {
            return true;
        }
    }
    return false;
}

static pst_status check_config(const struct pst_exec_config *config, struct pst_error *err)
{
    bool has_norm = list_has_norm(config->programs[0]);
    pst_status status = PST_OK;

    if (config->device->now != NULL && config->links == NULL) {
        return pst_fail(err, PST_ERR_BUG, "internal", "device %s: no links are described",
                        config->device->id);
    }
    if ((config->device->flags & PST_DEVICE_APART) != 0 && !config->transport->takes_memory) {
        return pst_fail(err, PST_ERR_UNSUPPORTED, "machine.missing",
                        "transport %s cannot reach the memory of device %s", config->transport->id,
                        config->device->id);
    }
    if ((config->graph->parts > 1 || config->plan->zero > 1) &&
        (config->device->flags & PST_DEVICE_PARTS) == 0) {
        return pst_fail(err, PST_ERR_UNSUPPORTED, "machine.missing",
                        "device %s cannot meet others inside passes", config->device->id);
    }
    if (!has_norm && (config->clip > 0 || config->skip_non_finite)) {
        return pst_fail(err, PST_ERR_BUG, "plan.illegal",
                        "the lists have no NORM, which clipping and skipping steps need");
    }
    if (config->n_local > 0 && config->n_local < config->plan->n_devices &&
        (config->transport->processes == NULL || config->n_local > 1 ||
         config->first_local >= config->plan->n_devices)) {
        return pst_fail(err, PST_ERR_BUG, "internal", "transport %s: ranks %u + %u are here",
                        config->transport->id, config->first_local, config->n_local);
    }
    if (config->eval_plan != NULL && config->eval_plan->n_devices != config->plan->n_devices) {
        return pst_fail(err, PST_ERR_BUG, "plan.illegal", "evaluation on %u ranks, training on %u",
                        config->eval_plan->n_devices, config->plan->n_devices);
    }
    for (uint32_t i = 0; i < config->plan->n_devices && status == PST_OK; i++) {
        status = check_list(config->plan, config->programs[i], has_norm, err);
        if (status == PST_OK && config->eval_plan != NULL) {
            status = check_list(config->eval_plan, config->eval_programs[i], 0, err);
        }
    }
    return status;
}

/* REDUCE that a rank may have posted: those of two parts at most; and a TIE. */
static uint32_t most_meetings(const struct pst_exec_config *config)
{
    uint32_t most = 0;

    for (uint32_t i = 0; i < config->plan->n_devices; i++) {
        uint32_t n = 0;

        for (uint32_t s = 0; s < config->plan->n_stages; s++) {
            n += pst_plan_replica(&config->plan->stages[s], i) != PST_NONE;
        }
        most = n > most ? n : most;
    }
    return 2 * most + (config->plan->n_ties > 0);
}

/* Sums of losses in a table. */
static uint32_t count_losses(const struct pst_exec_config *config)
{
    const struct pst_plan_stage *stage = exec_loss_stage(config->plan, config->graph);

    return stage != NULL && pst_plan_replicas(stage) > 1 ? config->plan->batch : 1;
}

static uint32_t most_parts(const struct pst_exec_config *config)
{
    uint32_t most = 1;

    for (uint32_t i = 0; i < config->plan->n_devices; i++) {
        uint32_t train = config->programs[i]->n_parts;
        uint32_t eval = config->eval_plan != NULL ? config->eval_programs[i]->n_parts : 0;

        most = train > most ? train : most;
        most = eval > most ? eval : most;
    }
    return most;
}

/* Signals are for the thread that drives the executor. Threads inherit its floating-point mode,
   which plugins, devices and transports may have changed until now. */
static pst_status start_threads(struct pst_exec *exec, struct pst_error *err)
{
    sigset_t all, old;
    uint32_t i;

    pst_float_mode_reset();
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    for (i = exec->first_local; i < exec->first_local + exec->n_local; i++) {
        if (pthread_create(&exec->ranks[i].thread, NULL, exec_rank_main, &exec->ranks[i]) != 0) {
            break;
        }
        exec->ranks[i].started = true;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    i -= exec->first_local;
    return i == exec->n_local
               ? PST_OK
               : pst_fail(err, PST_ERR_NOMEM, "machine.threads",
                          "cannot start thread %u of %u: out of threads", i + 1, exec->n_local);
}

pst_status exec_failure(struct pst_exec *exec, struct pst_error *err)
{
    uint32_t failed = atomic_load(&exec->failed);
    const struct pst_error *why = failed > 0 ? &exec->ranks[failed - 1].error : &exec->why;
    pst_status status = failed > 0 ? exec->ranks[failed - 1].status : exec->stopped;

    if (status == PST_OK) {
        return PST_OK;
    }
    if (err != NULL) {
        *err = *why;
        if (exec->told) {
            pst_error_prefix(err, "the run has already failed");
        }
    }
    exec->told = true;
    return status;
}

pst_status exec_run_all(struct pst_exec *exec, const struct exec_task *task, struct pst_error *err)
{
    pst_status status = exec_failure(exec, err);

    if (status != PST_OK) {
        return status;
    }
    if (pst_exec_in_flight(exec) > 0) {
        return pst_fail(err, PST_ERR_BUG, "internal", "%u steps are in flight",
                        pst_exec_in_flight(exec));
    }
    exec_tasks_wait(&exec->tasks, exec_tasks_post(&exec->tasks, task, exec->n_local));
    return exec_failure(exec, err);
}

static bool updates_each_microbatch(const struct pst_plan *plan)
{
    return plan->version_rule == PST_VERSION_STASHED && plan->n_stages > 0;
}

uint32_t pst_exec_updates_of_step(const struct pst_plan *plan)
{
    return updates_each_microbatch(plan) ? plan->stages[0].n_microbatches : 1;
}

/* The executor's own memory. */
static void allocate(struct pst_exec *exec)
{
    exec->ranks = pst_alloc(exec->n_ranks, sizeof *exec->ranks);
    exec->devices = pst_alloc(exec->n_ranks, sizeof(struct pst_device *));
    exec->n_trees =
        pst_plan_square_trees(exec->config.plan, exec->config.graph, &exec->memory, &exec->trees);
    exec->n_sums = exec->n_trees + count_losses(&exec->config);
    exec->n_updates = pst_exec_updates_of_step(exec->config.plan);
    exec->n_in_update = updates_each_microbatch(exec->config.plan)
                            ? exec->config.plan->stages[0].microbatch_size
                            : exec->config.plan->batch;
    exec->table = pst_alloc(exec->n_sums, sizeof *exec->table);
    if (exec_is_shared(exec)) {
        exec->shared = pst_alloc(((size_t)exec->n_ranks + 1) * (exec->n_sums + EXEC_WORDS),
                                 sizeof *exec->shared);
    }
    for (uint32_t i = 0; i < exec->n_ranks; i++) {
        exec->ranks[i].exec = exec;
        exec->ranks[i].index = i;
        exec->ranks[i].n_skipped =
            exec->config.first_step * exec->n_updates - exec->config.first_update;
    }
    exec_tasks_init(&exec->tasks, exec->n_local);
}

/* Is there room for all arenas together, before devices are opened? One that comes last on a device
   that several ranks share would else find out alone. */
static pst_status check_room(struct pst_exec *exec, struct pst_error *err)
{
    struct pst_device_config *device = &exec->config.device_config;
    uint64_t *bytes;
    pst_status status;

    device->first_rank = exec->first_local;
    device->n_ranks = exec->n_local;
    if (exec->config.device->fits == NULL) {
        return PST_OK;
    }
    bytes = pst_alloc(exec->n_local, sizeof *bytes);
    for (uint32_t i = 0; i < exec->n_local; i++) {
        bytes[i] = exec_arena_bytes(exec, exec->first_local + i);
    }
    status = exec->config.device->fits(device, bytes, err);
    free(bytes);
    return status;
}

static void log_note(const char *text)
{
    pst_log(PST_LOG_DEBUG, "transport", "%s", text);
}

static pst_status open_transport(struct pst_exec *exec, struct pst_error *err)
{
    const struct pst_exec_config *config = &exec->config;
    struct pst_transport_config transport = {
        .n_ranks = exec->n_ranks,
        .max_requests = most_parts(config),
        .max_meetings = most_meetings(config),
        .max_rows = config->plan->zero > 1 ? pst_gathers_open(config->plan) : 0,
        .stall_ns = exec->stall_ns,
        .doing = exec_doing,
        .doing_context = exec,
        .meets = exec_meets,
        .meets_context = exec,
        .edges = config->edges,
        .note = log_note,
        .device = config->device,
        .devices = exec->devices};
    struct pst_transport_times times;
    struct pst_transport_memory memory;

    if (config->device->now != NULL) {
        times = exec_clock_times(exec);
        transport.times = &times;
    }
    if ((config->device->flags & PST_DEVICE_APART) != 0) {
        memory = exec_async_memory(exec);
        transport.memory = &memory;
    }
    return config->transport->open(&transport, &exec->transport, err);
}

pst_status pst_exec_create(const struct pst_exec_config *config, struct pst_exec **ret_exec,
                           struct pst_error *err)
{
    pst_status status = check_config(config, err);
    struct pst_exec *exec;

    if (status != PST_OK) {
        return status;
    }
    exec = pst_alloc(1, sizeof *exec);
    exec->config = *config;
    exec->n_ranks = config->plan->n_devices;
    exec->first_local = config->n_local > 0 ? config->first_local : 0;
    exec->n_local = config->n_local > 0 ? config->n_local : exec->n_ranks;
    exec->stall_ns = config->stall_ns > 0 ? config->stall_ns : DEFAULT_STALL_NS;
    exec->epoch = 1;
    exec->n_submitted = exec->n_collected = config->first_step;
    exec->has_norm = list_has_norm(config->programs[0]);
    allocate(exec);
    status = check_room(exec, err);
    PST_TRY(status, open_transport(exec, err));
    PST_TRY(status, start_threads(exec, err));
    PST_TRY(status, exec_run_all(exec, &(struct exec_task){.command = EXEC_SETUP}, err));
    if (status != PST_OK) {
        pst_exec_destroy(exec);
        return status;
    }
    *ret_exec = exec;
    return PST_OK;
}

/* --- devices that stand still ----------------------------------------------------------------- */

static _Atomic(struct pst_exec *) left;

/* Memory that a device or a thread waiting for it may still use is never freed. The lists may be
   freed: exec_doing() reports nothing from now on. */
static void leave_exec(struct pst_exec *exec)
{
    for (uint32_t i = 0; i < exec->n_ranks; i++) {
        atomic_store(&exec->ranks[i].at, 0);
    }
    exec->next_left = atomic_load(&left);
    while (!atomic_compare_exchange_weak(&left, &exec->next_left, exec)) {
    }
}

bool pst_exec_is_stuck(void)
{
    return atomic_load(&left) != NULL;
}

/* --- the end ---------------------------------------------------------------------------------- */

void pst_exec_destroy(struct pst_exec *exec)
{
    const struct exec_task settle = {.command = EXEC_SETTLE}, quit = {.command = EXEC_QUIT};
    uint32_t n_started = 0;

    if (exec == NULL) {
        return;
    }
    for (uint32_t i = 0; i < exec->n_ranks; i++) {
        n_started += exec->ranks[i].started;
    }
    if (n_started > 0) {
        for (; exec->n_collected < exec->n_submitted; exec->n_collected++) {
            exec_tasks_wait(&exec->tasks,
                            exec->flights[exec->n_collected % PST_EXEC_IN_FLIGHT].generation);
        }
        exec_tasks_wait(&exec->tasks, exec_tasks_post(&exec->tasks, &settle, n_started));
        exec_tasks_post(&exec->tasks, &quit, n_started);
    }
    for (uint32_t i = 0; i < exec->n_ranks; i++) {
        if (exec->ranks[i].started) {
            pthread_join(exec->ranks[i].thread, NULL);
        }
    }
    if (atomic_load(&exec->stuck)) {
        leave_exec(exec);
        return;
    }
    if (exec->transport != NULL) {
        exec->config.transport->close(exec->transport);
    }
    exec_tasks_finish(&exec->tasks);
    free(exec->table);
    pst_arena_finish(&exec->memory);
    free(exec->devices);
    free(exec->shared);
    free(exec->ranks);
    free(exec);
}
