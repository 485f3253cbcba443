/* SPDX-License-Identifier: Apache-2.0 */
#include "reports/tune_report.h"

#include <stdlib.h>

#include "base/util.h"
#include "reports/table.h"

/* --- order -------------------------------------------------------------------------------------*/

/* The largest batch first; equal ones by throughput, then in the order asked for. ret_order: n.
   Returns how many can train anything. */
static uint32_t order_results(const struct pst_tune_result *result, uint32_t *ret_order)
{
    struct pst_compare_rank *ranks = pst_alloc((size_t)result->n + 1, sizeof *ranks);
    uint32_t n = 0;

    for (uint32_t i = 0; i < result->n; i++) {
        const struct pst_tuned *tuned = &result->records[i].tuned;

        if (result->records[i].tried && tuned->microbatch > 0) {
            ranks[n++] = (struct pst_compare_rank){tuned->best.batch,
                                                   pst_trial_samples_per_second(&tuned->best), i};
        }
    }
    pst_compare_sort(ranks, n, ret_order);
    return n;
}

/* --- for people --------------------------------------------------------------------------------*/

static struct pst_compare_columns columns_of(const struct pst_tune_result *result)
{
    struct pst_compare_columns columns = {.config = result->n_configs > 1,
                                          .n_axes = PST_AXIS_MICROBATCH};

    for (uint32_t i = 0; i < result->n; i++) {
        columns.method |= result->records[i].names.method != NULL;
    }
    return columns;
}

static void print_done(const struct pst_tune_result *result, const uint32_t *order, uint32_t n,
                       bool color, FILE *out)
{
    struct pst_compare_columns columns = columns_of(result);
    struct pst_table table;
    char title[64], text[32];

    snprintf(title, sizeof title, ">samples/s at %u", result->common);
    pst_compare_name_columns(&table, &columns);
    pst_table_columns(&table, ">micro-batch|>batch|>samples/s|>memory of a device");
    pst_table_columns(&table, result->common > 0 ? title : "");
    for (uint32_t i = 0; i < n; i++) {
        const struct pst_tune_record *record = &result->records[order[i]];
        const struct pst_tuned *tuned = &record->tuned;

        pst_compare_names(&table, &columns, &record->names);
        pst_table_cell(&table, "%s%u", tuned->bounded ? "" : ">= ", tuned->microbatch);
        pst_table_cell(&table, "%u", tuned->best.batch);
        pst_table_cell(&table, "%s",
                       pst_compare_rate(text, pst_trial_samples_per_second(&tuned->best)));
        pst_table_bytes(&table, pst_trial_most_bytes(&tuned->best));
        if (result->common > 0) {
            pst_table_cell(
                &table, "%s",
                tuned->common.state != PST_TRIAL_DONE
                    ? "-"
                    : pst_compare_rate(text, pst_trial_samples_per_second(&tuned->common)));
        }
    }
    pst_table_end(&table, out, "", color);
}

/* Why it has no size at all. */
static const struct pst_error *why_none(const struct pst_tuned *tuned)
{
    return tuned->microbatch == 0 ? &tuned->best.why : NULL;
}

/* What a plugin did at a size that is not its largest. */
static const struct pst_error *why_misdeed(const struct pst_tuned *tuned)
{
    return tuned->microbatch > 0 ? pst_tuned_misdeed(tuned) : NULL;
}

static void print_why(const struct pst_tune_result *result, const char *title,
                      const struct pst_error *(*why_of)(const struct pst_tuned *tuned), bool color,
                      FILE *out)
{
    struct pst_compare_columns columns = columns_of(result);
    struct pst_compare_others others;

    pst_compare_others_begin(&others, &columns);
    for (uint32_t i = 0; i < result->n; i++) {
        const struct pst_tune_record *record = &result->records[i];
        const struct pst_error *why = record->tried ? why_of(&record->tuned) : NULL;

        if (why != NULL) {
            pst_compare_others_add(&others, &record->names, why);
        }
    }
    pst_compare_others_end(&others, title, color, out);
}

void pst_tune_report_print(const struct pst_tune_result *result, bool color, FILE *out)
{
    uint32_t *order = pst_alloc((size_t)result->n + 1, sizeof *order), n;

    n = order_results(result, order);
    fprintf(out, "largest batch of %u combination%s\n", result->n, result->n == 1 ? "" : "s");
    if (n > 0) {
        const struct pst_tuned *best = &result->records[order[0]].tuned;

        print_done(result, order, n, color, out);
        if (best->bounded) {
            char text[PST_COMPARE_WHY];

            fprintf(out, "\nthe first stops there: %s\n",
                    pst_compare_why(text, sizeof text, &best->beyond));
        }
    }
    print_why(result, "not even one sample at a time", why_none, color, out);
    print_why(result, "a plugin failed at another size", why_misdeed, color, out);
    for (uint32_t i = 0; i < result->n; i++) {
        if (!result->records[i].tried) {
            fprintf(out, "\nnot all were tried\n");
            break;
        }
    }
    free(order);
}

/* --- for tools ---------------------------------------------------------------------------------*/

static void add_names_json(struct pst_json *json, const struct pst_tune_record *record)
{
    struct pst_compare_record names = record->names;

    names.labels[PST_AXIS_MICROBATCH] = "-";
    pst_compare_json_labels(json, &names);
}

static void add_record(struct pst_json *json, const struct pst_tune_record *record)
{
    const struct pst_tuned *tuned = &record->tuned;

    pst_json_object(json, NULL);
    add_names_json(json, record);
    if (record->tried) {
        pst_json_uint(json, "max_microbatch", tuned->microbatch);
        pst_json_uint(json, "max_batch", tuned->microbatch > 0 ? tuned->best.batch : 0);
        pst_json_bool(json, "bounded", tuned->bounded);
        pst_json_uint(json, "trials", tuned->n_trials);
        pst_json_object(json, "at_max");
        pst_compare_json_trial(json, &tuned->best);
        pst_json_end(json, '}');
        if (tuned->bounded) {
            pst_json_string(json, "beyond", tuned->beyond.message);
        }
        if (tuned->common.state != PST_TRIAL_OPEN) {
            pst_json_object(json, "at_common");
            pst_compare_json_trial(json, &tuned->common);
            pst_json_end(json, '}');
        }
    }
    pst_json_end(json, '}');
}

void pst_tune_report_json(const struct pst_tune_result *result, struct pst_json *json)
{
    uint32_t *order = pst_alloc((size_t)result->n + 1, sizeof *order);
    uint32_t n;

    n = order_results(result, order);
    pst_json_string(json, "objective", "max-batch");
    pst_json_uint(json, "combinations", result->n);
    pst_json_uint(json, "common_microbatch", result->common);
    pst_json_uints(json, "order", order, n);
    pst_json_array(json, "records");
    for (uint32_t i = 0; i < result->n; i++) {
        add_record(json, &result->records[i]);
    }
    pst_json_end(json, ']');
    free(order);
}
