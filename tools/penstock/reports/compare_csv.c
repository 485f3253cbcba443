/* SPDX-License-Identifier: Apache-2.0
 *
 * Combinations as comma-separated values (RFC 4180, but lines end with LF).
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "reports/compare_report.h"
#include "reports/sim_report.h"

/* A field, in quotes where it needs them. */
static void put_text(FILE *out, const char *text)
{
    if (strpbrk(text, ",\"\n\r") == NULL) {
        fputs(text, out);
        return;
    }
    fputc('"', out);
    for (; *text != '\0'; text++) {
        if (*text == '"') {
            fputc('"', out);
        }
        fputc(*text, out);
    }
    fputc('"', out);
}

static void put_outcome(FILE *out, const struct pst_trial *trial)
{
    char why[PST_COMPARE_WHY];

    if (trial->state != PST_TRIAL_DONE) {
        fputs(",,,,,,,,,,,", out);
        put_text(out, trial->state == PST_TRIAL_OPEN
                          ? ""
                          : pst_compare_why(why, sizeof why, &trial->why));
        fputc(',', out);
        if (trial->why.enough_bytes != 0) {
            fprintf(out, "%" PRIu64, trial->why.enough_bytes);
        }
        return;
    }
    fprintf(out, ",%u,%u,%.3f,%.9g,%.9g,%" PRIu64 ",%.6f", trial->batch, trial->n_stages,
            (double)trial->sim.period_ns / 1e3, pst_trial_samples_per_second(trial),
            pst_sim_bubble(&trial->sim), pst_trial_most_bytes(trial), trial->search_seconds);
    if (trial->ran) {
        fprintf(out, ",%.3f,%.3f,%.9g,,", (double)trial->measured_ns / 1e3,
                (double)trial->predicted_ns / 1e3, trial->final_loss);
    } else {
        fputs(",,,,,", out);
    }
}

char *pst_compare_report_csv(const struct pst_compare_result *result)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);

    if (out == NULL) {
        pst_out_of_memory();
    }
    fputs("config,method", out);
    for (uint32_t a = 0; a < PST_AXES; a++) {
        fprintf(out, ",%s", pst_axis_keys[a]);
    }
    fputs(",state,batch,stages,step_us,samples_per_second,bubble,peak_bytes,search_seconds,"
          "measured_step_us,predicted_step_us,final_loss,why,enough_bytes\n",
          out);
    for (uint32_t i = 0; i < result->n; i++) {
        const struct pst_compare_record *record = &result->records[i];

        put_text(out, record->config);
        fputc(',', out);
        put_text(out, record->method == NULL ? "" : record->method);
        for (uint32_t a = 0; a < PST_AXES; a++) {
            fputc(',', out);
            put_text(out, record->labels[a]);
        }
        fprintf(out, ",%s", pst_trial_state_word(record->trial.state));
        put_outcome(out, &record->trial);
        fputc('\n', out);
    }
    if (ferror(out) != 0 || fclose(out) != 0) {
        pst_out_of_memory();
    }
    return text;
}
