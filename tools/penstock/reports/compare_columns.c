/* SPDX-License-Identifier: Apache-2.0 */
#include "reports/compare_columns.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"
#include "base/util.h"

#define BOTH (PST_COLUMN_TABLE | PST_COLUMN_FILE)

const char *pst_trial_state_word(enum pst_trial_state state)
{
    static const char *const words[] = {"open", "done", "incompatible", "does-not-fit", "failed"};

    return words[state];
}

const char *pst_compare_why(struct pst_arena *arena, const struct pst_error *why)
{
    char *text = pst_arena_printf(arena, "%s%s%s", why->message, why->hint[0] == '\0' ? "" : "; ",
                                  why->hint);

    pst_text_make_plain(text);
    return text;
}

const char *pst_compare_sharing(const struct pst_compare_result *result, struct pst_arena *arena)
{
    uint32_t cores = 0;
    bool in_turn = false;

    for (uint32_t i = 0; i < result->n; i++) {
        const struct pst_trial *trial = &result->records[i].trial;

        cores = trial->state == PST_TRIAL_DONE && trial->cores > cores ? trial->cores : cores;
        in_turn |= trial->state == PST_TRIAL_DONE && trial->in_turn;
    }
    return cores == 0 ? ""
                      : pst_arena_printf(
                            arena,
                            in_turn ? "Devices share %u core%s of this machine: with more devices "
                                      "than cores, devices are idle while others run."
                                    : "Devices share %u core%s of this machine; simulated steps "
                                      "are of devices side by side, as [cluster] describes them.",
                            cores, cores == 1 ? "" : "s");
}

const char *pst_compare_undivided(const struct pst_compare_result *result)
{
    bool any = false;

    for (uint32_t i = 0; i < result->n; i++) {
        any |= result->records[i].undivided;
    }
    return any ? "With tensor 1 nothing is divided: ways, way and sequence in [parallel] of the "
                 "config do not count there."
               : "";
}

/* --- order -------------------------------------------------------------------------------------*/

/* A record that is done. */
struct rank {
    struct pst_score score;
    uint32_t record;
};

static int by_rank(const void *a, const void *b)
{
    const struct rank *x = a, *y = b;
    const int order = pst_score_compare(&y->score, &x->score);

    return order != 0 ? order : x->record < y->record ? -1 : x->record > y->record;
}

uint32_t pst_compare_order(const struct pst_compare_result *result, uint32_t *ret_order)
{
    struct rank *ranks = pst_alloc((size_t)result->n + 1, sizeof *ranks);
    uint32_t n = 0;

    for (uint32_t i = 0; i < result->n; i++) {
        const struct pst_trial *trial = &result->records[i].trial;

        if (trial->state == PST_TRIAL_DONE) {
            ranks[n++] = (struct rank){pst_goal_score(&result->goal, trial), i};
        }
    }
    qsort(ranks, n, sizeof *ranks, by_rank);
    for (uint32_t i = 0; i < n; i++) {
        ret_order[i] = ranks[i].record;
    }
    free(ranks);
    return n;
}

uint32_t pst_compare_plans(const struct pst_compare_result *result, uint32_t *ret_order)
{
    const uint32_t n = pst_compare_order(result, ret_order);
    uint32_t n_plans = 0;

    for (uint32_t i = 0; i < n; i++) {
        if (result->records[ret_order[i]].same_as == NULL) {
            ret_order[n_plans++] = ret_order[i];
        }
    }
    return n_plans;
}

/* --- what a record has -------------------------------------------------------------------------*/

#define GET(name) static void get_##name(const struct pst_cell_of *of, struct pst_cell *cell)
#define GET_TEXT(name, expression)                                                                 \
    GET(name)                                                                                      \
    {                                                                                              \
        cell->text = (expression);                                                                 \
        cell->there = cell->text != NULL;                                                          \
    }
#define GET_NUMBER(name, condition, expression)                                                    \
    GET(name)                                                                                      \
    {                                                                                              \
        const struct pst_trial *trial = &of->record->trial;                                        \
                                                                                                   \
        (void)trial;                                                                               \
        cell->there = (condition);                                                                 \
        cell->number = cell->there ? (double)(expression) : 0;                                     \
    }
#define GET_VERSUS(name, field, needs, expression)                                                 \
    GET(name)                                                                                      \
    {                                                                                              \
        const struct pst_versus *versus = &of->record->field;                                      \
                                                                                                   \
        cell->there = versus->needs;                                                               \
        cell->number = (double)(expression);                                                       \
        cell->same = pst_versus_is_same(versus);                                                   \
    }

GET_TEXT(config, of->record->config)
GET_TEXT(method, of->record->method)
GET_TEXT(partitioner, of->record->labels[PST_AXIS_PARTITIONER])
GET_TEXT(scheduler, of->record->labels[PST_AXIS_SCHEDULER])
GET_TEXT(memopt, of->record->labels[PST_AXIS_MEMOPT])
GET_TEXT(devices, of->record->labels[PST_AXIS_DEVICES])
GET_TEXT(microbatch, of->record->labels[PST_AXIS_MICROBATCH])
GET_TEXT(replicas, of->record->labels[PST_AXIS_REPLICAS])
GET_TEXT(zero, of->record->labels[PST_AXIS_ZERO])
GET_TEXT(tensor, of->record->labels[PST_AXIS_TENSOR])
GET_TEXT(sequence, of->record->labels[PST_AXIS_SEQUENCE])
GET_TEXT(state, pst_trial_state_word(of->record->trial.state))
GET_TEXT(why, of->record->trial.state <= PST_TRIAL_DONE
                  ? NULL
                  : pst_compare_why(of->arena, &of->record->trial.why))

#define DONE (trial->state == PST_TRIAL_DONE)
GET_NUMBER(batch, DONE, trial->batch)
GET_NUMBER(stages, DONE, trial->n_stages)
GET_NUMBER(rate, DONE, pst_trial_samples_per_second(trial))
GET_NUMBER(step, DONE, trial->sim.period_ns)
GET_NUMBER(idle, DONE, pst_sim_idle(&trial->sim).all)
GET_NUMBER(bubble, DONE, pst_sim_idle(&trial->sim).busiest)
GET_NUMBER(search, DONE, trial->search_seconds)
GET_NUMBER(low, DONE && trial->high_ns > 0, trial->low_ns)
GET_NUMBER(high, DONE && trial->high_ns > 0, trial->high_ns)
GET_NUMBER(peak, DONE, pst_trial_most_bytes(trial))
GET_NUMBER(enough, trial->state > PST_TRIAL_DONE && trial->why.enough_bytes > 0,
           trial->why.enough_bytes)

#define RAN (DONE && trial->ran)
GET_NUMBER(measured, RAN, trial->measured_ns)
GET_NUMBER(predicted, RAN, trial->predicted_ns)
GET_NUMBER(error, RAN, (double)trial->predicted_ns / (double)trial->measured_ns - 1)
GET_NUMBER(rounds, RAN, trial->n_rounds)
GET_NUMBER(steps, RAN, trial->n_steps)
/* Emulated devices have no loss. */
GET_NUMBER(loss, RAN && !isnan(trial->final_loss), trial->final_loss)

GET_VERSUS(of_best, best, known, versus->speedup)
GET_VERSUS(p_best, best, tested, versus->p)
GET_VERSUS(same_as_best, best, tested, pst_versus_is_same(versus))
GET_VERSUS(speedup, baseline, known, versus->speedup)
GET_VERSUS(speedup_low, baseline, tested, versus->low)
GET_VERSUS(speedup_high, baseline, tested, versus->high)
GET_VERSUS(p_baseline, baseline, tested, versus->p)
GET_VERSUS(same_as_baseline, baseline, tested, pst_versus_is_same(versus))

GET(interval)
{
    get_high(of, cell);
    cell->least = (double)of->record->trial.low_ns;
}

/* Gets the least and the most memory that a device holds. */
GET(memory)
{
    const struct pst_trial *trial = &of->record->trial;
    uint64_t least = UINT64_MAX;

    for (uint32_t d = 0; trial->arena_bytes != NULL && d < trial->n_devices; d++) {
        least = trial->arena_bytes[d] < least ? trial->arena_bytes[d] : least;
    }
    get_peak(of, cell);
    cell->least = pst_compare_seeks_batch(of->result) ? 0 : (double)least;
}

GET_NUMBER(common_rate,
           of->record->tuned != NULL && of->record->tuned->common.state == PST_TRIAL_DONE,
           pst_trial_samples_per_second(&of->record->tuned->common))
GET_NUMBER(size, of->record->tuned != NULL, of->record->tuned->microbatch)

GET(largest)
{
    get_size(of, cell);
    cell->before = cell->there && !of->record->tuned->bounded ? ">= " : NULL;
}

#define NAME  (BOTH | PST_COLUMN_NAME)
#define TABLE PST_COLUMN_TABLE
#define FILES PST_COLUMN_FILE
#define RUN   PST_COLUMN_RUN
const struct pst_compare_column pst_compare_columns[] = {
    {"config", "config", "", 1, PST_CELL_TEXT, NAME | PST_COLUMN_CONFIGS, get_config, 0},
    {"method", "method", "", 1, PST_CELL_TEXT, NAME | PST_COLUMN_METHODS, get_method, 0},
    {"partitioner", "partitioner", "", 1, PST_CELL_TEXT, NAME, get_partitioner, 0},
    {"scheduler", "scheduler", "", 1, PST_CELL_TEXT, NAME, get_scheduler, 0},
    {"memopt", "memory", "", 1, PST_CELL_TEXT, NAME, get_memopt, 0},
    {"devices", "devices", "", 1, PST_CELL_COUNT, NAME, get_devices, 0},
    {"microbatch", "micro-batch", "", 1, PST_CELL_COUNT, NAME | PST_COLUMN_COMPARED, get_microbatch,
     0},
    {"replicas", "replicas", "", 1, PST_CELL_TEXT, NAME | PST_COLUMN_REPLICAS, get_replicas, 0},
    {"zero", "zero", "", 1, PST_CELL_COUNT, NAME | PST_COLUMN_ZERO, get_zero, 0},
    {"tensor", "tensor", "", 1, PST_CELL_COUNT, NAME | PST_COLUMN_TENSOR, get_tensor, 0},
    {"sequence", "sequence", "", 1, PST_CELL_TEXT, NAME | PST_COLUMN_SEQUENCE, get_sequence, 0},
    {"max_microbatch", "micro-batch", "", 1, PST_CELL_COUNT, TABLE | PST_COLUMN_LARGEST,
     get_largest, 0},
    {"state", "state", "", 1, PST_CELL_TEXT, FILES, get_state, 0},
    {"batch", "batch", "", 1, PST_CELL_COUNT, BOTH | PST_COLUMN_LARGEST, get_batch, '8'},
    {"stages", "stages", "", 1, PST_CELL_COUNT, FILES, get_stages, 0},
    {"samples_per_second", "samples/s", "", 1, PST_CELL_RATE, BOTH, get_rate, 0},
    {"common_samples_per_second", "at the common size", "", 1, PST_CELL_RATE,
     TABLE | PST_COLUMN_COMMON, get_common_rate, '7'},
    {"of_best", "of best", "", 1, PST_CELL_RATIO, BOTH | PST_COLUMN_COMPARED, get_of_best, '2'},
    {"speedup", "speed-up", "", 1, PST_CELL_RATIO, BOTH | PST_COLUMN_BASELINE, get_speedup, 0},
    {"measured_step_us", "step", "ms", 1e-6, PST_CELL_NS, BOTH | RUN, get_measured, '2'},
    {"", "95 % interval", "ms", 1e-6, PST_CELL_NS, TABLE | PST_COLUMN_ROUNDS, get_interval, '6'},
    {"measured_low_us", "", "", 1, PST_CELL_NS, FILES, get_low, 0},
    {"measured_high_us", "", "", 1, PST_CELL_NS, FILES, get_high, 0},
    {"step_us", "step", "ms", 1e-6, PST_CELL_NS, BOTH | PST_COLUMN_SIMULATED | PST_COLUMN_COMPARED,
     get_step, '2'},
    {"predicted_step_us", "predicted", "ms", 1e-6, PST_CELL_NS, BOTH | RUN, get_predicted, '5'},
    {"prediction_error", "error", "%", 100, PST_CELL_CHANGE, BOTH | RUN, get_error, '6'},
    {"final_loss", "loss", "", 1, PST_CELL_NUMBER, BOTH | RUN, get_loss, '6'},
    {"idle", "idle", "%", 100, PST_CELL_PART, BOTH | PST_COLUMN_COMPARED, get_idle, '4'},
    {"bubble", "busiest idle", "%", 100, PST_CELL_PART, BOTH | PST_COLUMN_COMPARED, get_bubble,
     '8'},
    {"", "allocated per device", "MiB", 1 / 1048576.0, PST_CELL_BYTES, TABLE, get_memory, '3'},
    {"peak_bytes", "", "", 1, PST_CELL_BYTES, FILES, get_peak, 0},
    {"search_seconds", "search", "s", 1, PST_CELL_SECONDS, BOTH | PST_COLUMN_COMPARED, get_search,
     '9'},
    {"rounds", "", "", 1, PST_CELL_COUNT, FILES, get_rounds, 0},
    {"steps_per_round", "", "", 1, PST_CELL_COUNT, FILES, get_steps, 0},
    {"p_best", "", "", 1, PST_CELL_NUMBER, FILES, get_p_best, 0},
    {"same_as_best", "", "", 1, PST_CELL_FLAG, FILES, get_same_as_best, 0},
    {"speedup_low", "", "", 1, PST_CELL_NUMBER, FILES, get_speedup_low, 0},
    {"speedup_high", "", "", 1, PST_CELL_NUMBER, FILES, get_speedup_high, 0},
    {"p_baseline", "", "", 1, PST_CELL_NUMBER, FILES, get_p_baseline, 0},
    {"same_as_baseline", "", "", 1, PST_CELL_FLAG, FILES, get_same_as_baseline, 0},
    {"why", "", "", 1, PST_CELL_TEXT, FILES, get_why, 0},
    {"enough_bytes", "", "", 1, PST_CELL_BYTES, FILES, get_enough, 0},
};
const uint32_t pst_n_compare_columns = sizeof pst_compare_columns / sizeof *pst_compare_columns;

/* --- which there are, and how they look --------------------------------------------------------*/

bool pst_compare_has_axis(const struct pst_compare_result *result, enum pst_axis_kind axis)
{
    const char *initial = axis == PST_AXIS_ZERO ? "0" : axis == PST_AXIS_TENSOR ? "1" : "false";

    for (uint32_t i = 0; i < result->n; i++) {
        if (strcmp(result->records[i].labels[axis], initial) != 0) {
            return true;
        }
    }
    return false;
}

static uint32_t parallel_columns(const struct pst_compare_result *result)
{
    return (pst_compare_has_axis(result, PST_AXIS_ZERO) ? PST_COLUMN_ZERO : 0u) |
           (pst_compare_has_axis(result, PST_AXIS_TENSOR) ? PST_COLUMN_TENSOR : 0u) |
           (pst_compare_has_axis(result, PST_AXIS_SEQUENCE) ? PST_COLUMN_SEQUENCE : 0u);
}

bool pst_compare_has_column(const struct pst_compare_result *result,
                            const struct pst_compare_column *column)
{
    uint32_t has = BOTH | PST_COLUMN_NAME;

    for (uint32_t i = 0; i < result->n; i++) {
        const struct pst_record *record = &result->records[i];

        has |= strcmp(record->labels[PST_AXIS_REPLICAS], "1") != 0 ? PST_COLUMN_REPLICAS : 0;
        has |= record->method != NULL ? PST_COLUMN_METHODS : 0;
        has |= record->baseline.known ? PST_COLUMN_BASELINE : 0;
        has |= record->trial.n_rounds > 1 ? PST_COLUMN_ROUNDS : 0;
    }
    has |= result->run ? PST_COLUMN_RUN : PST_COLUMN_SIMULATED;
    has |= result->n_configs > 1 ? PST_COLUMN_CONFIGS : 0;
    has |= pst_compare_seeks_batch(result) ? PST_COLUMN_LARGEST : PST_COLUMN_COMPARED;
    has |= result->common > 0 ? PST_COLUMN_COMMON : 0;
    has |= parallel_columns(result);
    return (column->flags & PST_COLUMN_TABLE) != 0 && (column->flags & ~has) == 0;
}

bool pst_compare_is_same(const struct pst_compare_result *result,
                         const struct pst_compare_column *column)
{
    struct pst_arena arena = {NULL, 0, 0};
    const char *first = NULL;
    bool same = (column->flags & PST_COLUMN_NAME) != 0 && strcmp(column->key, "scheduler") != 0;

    for (uint32_t i = 0; i < result->n && same; i++) {
        struct pst_cell cell = pst_compare_cell(result, &result->records[i], column, &arena);
        const char *text = pst_compare_cell_text(column, &cell, &arena);

        same = first == NULL || strcmp(text, first) == 0;
        first = first == NULL ? text : first;
    }
    pst_arena_finish(&arena);
    return same;
}

const char *pst_compare_same_text(const struct pst_compare_result *result, struct pst_arena *arena)
{
    const char *all = "";

    for (uint32_t c = 0; c < pst_n_compare_columns; c++) {
        const struct pst_compare_column *column = &pst_compare_columns[c];
        struct pst_cell cell;

        if (result->n > 0 && pst_compare_has_column(result, column) &&
            pst_compare_is_same(result, column)) {
            cell = pst_compare_cell(result, &result->records[0], column, arena);
            all = pst_arena_printf(arena, "%s%s%s %s", all, all[0] == '\0' ? "" : ", ",
                                   column->title, pst_compare_cell_text(column, &cell, arena));
        }
    }
    return all;
}

/* The place of a key among columns of remarks; n: it is not there. */
static uint32_t place_of(const struct pst_compare_column *const *columns, uint32_t n,
                         const char *key)
{
    uint32_t at = 0;

    while (at < n && strcmp(columns[at]->title, key) != 0) {
        at++;
    }
    return at;
}

static uint32_t count_remarks(const struct pst_compare_result *result)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < result->n; i++) {
        n += result->records[i].trial.n_remarks;
    }
    return n;
}

/* Appends a column for each key. */
static uint32_t add_remarks(const struct pst_compare_result *result, struct pst_arena *arena,
                            const struct pst_compare_column **columns)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < result->n; i++) {
        const struct pst_trial *trial = &result->records[i].trial;

        for (uint32_t k = 0; k < trial->n_remarks; k++) {
            const struct pst_partition_remark *remark = &trial->remarks[k];
            struct pst_compare_column *made;

            if (place_of(columns, n, remark->key) < n) {
                continue;
            }
            made = pst_arena_array(arena, 1, sizeof *made);
            *made = (struct pst_compare_column){
                .key = pst_arena_printf(arena, "remark_%s", remark->key),
                .title = remark->key,
                .unit = "",
                .scale = 1,
                .kind = remark->type == PST_REMARK_NUMBER ? PST_CELL_REMARK : PST_CELL_TEXT,
                .flags = BOTH | PST_COLUMN_REMARK,
            };
            columns[n++] = made;
        }
    }
    return n;
}

uint32_t pst_compare_list(const struct pst_compare_result *result, uint32_t which,
                          struct pst_arena *arena, const struct pst_compare_column ***ret_columns)
{
    const uint32_t absent =
        (PST_COLUMN_ZERO | PST_COLUMN_TENSOR | PST_COLUMN_SEQUENCE) & ~parallel_columns(result);
    const bool remarks = (which & PST_COLUMN_REMARK) != 0;
    const uint32_t most = pst_n_compare_columns + (remarks ? count_remarks(result) : 0);
    const struct pst_compare_column **columns = pst_arena_array(arena, most, sizeof *columns);
    uint32_t n = 0;

    for (uint32_t c = 0; c < pst_n_compare_columns; c++) {
        const struct pst_compare_column *column = &pst_compare_columns[c];
        const bool in_files =
            (column->flags & PST_COLUMN_FILE) != 0 && (column->flags & absent) == 0;
        const bool there =
            (which & PST_COLUMN_FILE) != 0 ? in_files : pst_compare_has_column(result, column);

        if (there && (which & BOTH) != 0) {
            columns[n++] = column;
        }
    }
    n += remarks ? add_remarks(result, arena, columns + n) : 0;
    *ret_columns = columns;
    return n;
}

static void get_remark(const struct pst_record *record, const struct pst_compare_column *column,
                       struct pst_arena *arena, struct pst_cell *cell)
{
    const struct pst_trial *trial = &record->trial;

    for (uint32_t i = 0; i < trial->n_remarks; i++) {
        const struct pst_partition_remark *remark = &trial->remarks[i];

        if (strcmp(remark->key, column->title) == 0) {
            cell->there = true;
            cell->number = remark->number;
            cell->text = remark->type == PST_REMARK_TEXT   ? remark->text
                         : remark->type == PST_REMARK_FLAG ? remark->number != 0 ? "true" : "false"
                         : column->kind == PST_CELL_REMARK
                             ? NULL
                             : pst_arena_printf(arena, "%.9g", remark->number);
        }
    }
}

struct pst_cell pst_compare_cell(const struct pst_compare_result *result,
                                 const struct pst_record *record,
                                 const struct pst_compare_column *column, struct pst_arena *arena)
{
    struct pst_cell cell = {.there = false};

    if (column->get != NULL) {
        column->get(&(struct pst_cell_of){result, record, arena}, &cell);
    } else {
        get_remark(record, column, arena, &cell);
    }
    return cell;
}

static const char *amount_text(const struct pst_compare_column *column, double amount,
                               char text[32])
{
    switch (column->kind) {
    case PST_CELL_NS:
        return pst_format_ns(text, (uint64_t)amount);
    case PST_CELL_SECONDS:
        return pst_format_ns(text, (uint64_t)(1e9 * amount));
    case PST_CELL_BYTES:
        return pst_format_bytes(text, (uint64_t)amount);
    case PST_CELL_RATE:
        snprintf(text, 32, "%.*f",
                 amount >= 1000  ? 0
                 : amount >= 100 ? 1
                 : amount >= 10  ? 2
                                 : 3,
                 amount);
        break;
    case PST_CELL_RATIO:
        snprintf(text, 32, "%.3f", amount);
        break;
    case PST_CELL_PART:
        snprintf(text, 32, "%.1f %%", 100 * amount);
        break;
    case PST_CELL_CHANGE:
        snprintf(text, 32, "%+.1f %%", 100 * amount);
        break;
    case PST_CELL_COUNT:
        snprintf(text, 32, "%.0f", amount);
        break;
    case PST_CELL_REMARK:
        snprintf(text, 32, "%.6g", amount);
        break;
    default:
        snprintf(text, 32, "%.4f", amount);
    }
    return text;
}

const char *pst_compare_cell_text(const struct pst_compare_column *column,
                                  const struct pst_cell *cell, struct pst_arena *arena)
{
    char most[32], least[32];

    if (!cell->there) {
        return "-";
    }
    if (cell->text != NULL) {
        return cell->text;
    }
    amount_text(column, cell->number, most);
    if (cell->least > 0 && cell->least < cell->number) {
        return pst_arena_printf(arena, "%s to %s", amount_text(column, cell->least, least), most);
    }
    return pst_arena_printf(arena, "%s%s%s", cell->before == NULL ? "" : cell->before, most,
                            cell->same ? PST_SAME_MARK : "");
}
