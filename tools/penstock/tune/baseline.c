/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/baseline.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/util.h"
#include "tune/significance.h"

/* --- names -------------------------------------------------------------------------------------*/

static bool has_labels_of(const struct pst_record *record, const struct pst_record *other,
                          uint32_t from)
{
    bool same = true;

    for (uint32_t a = from; a < PST_AXES; a++) {
        same &= strcmp(record->labels[a], other->labels[a]) == 0;
    }
    return same;
}

/* "partitioner/scheduler/memopt". */
static void write_triple(const struct pst_record *record, char *text, size_t size)
{
    snprintf(text, size, "%s/%s/%s", record->labels[PST_AXIS_PARTITIONER],
             record->labels[PST_AXIS_SCHEDULER], record->labels[PST_AXIS_MEMOPT]);
}

static bool is_meant(const struct pst_record *records, uint32_t n, uint32_t i, const char *name)
{
    const struct pst_record *record = &records[i];
    char triple[512], *end;
    unsigned long number = strtoul(name, &end, 10);

    if (name[0] >= '0' && name[0] <= '9' && *end == '\0') {
        const struct pst_record *one = number < n ? &records[number] : NULL;

        return one == record || (one != NULL && strcmp(one->config, record->config) != 0 &&
                                 has_labels_of(record, one, 0));
    }
    write_triple(record, triple, sizeof triple);
    return (record->method != NULL && strcmp(record->method, name) == 0) ||
           strcmp(triple, name) == 0 || strcmp(record->labels[PST_AXIS_SCHEDULER], name) == 0;
}

/* Returns the records that `name` means; free() them. */
static uint32_t *find_meant(const struct pst_record *records, uint32_t n, const char *name,
                            uint32_t *ret_n)
{
    uint32_t *meant = pst_alloc((size_t)n + 1, sizeof *meant);

    *ret_n = 0;
    for (uint32_t i = 0; name != NULL && i < n; i++) {
        if (is_meant(records, n, i, name)) {
            meant[(*ret_n)++] = i;
        }
    }
    return meant;
}

/* The baseline of a record: of those that are meant one with the same devices and micro-batches;
   else the fastest. PST_NONE: none of its config is meant. */
static uint32_t baseline_of(const struct pst_record *records, const struct pst_record *record,
                            const uint32_t *meant, uint32_t n_meant)
{
    uint32_t found = PST_NONE;

    for (uint32_t k = 0; k < n_meant; k++) {
        const struct pst_record *one = &records[meant[k]];

        if (strcmp(one->config, record->config) != 0) {
            continue;
        }
        if (has_labels_of(one, record, PST_AXIS_DEVICES)) {
            return meant[k];
        }
        if (found == PST_NONE || pst_trial_samples_per_second(&one->trial) >
                                     pst_trial_samples_per_second(&records[found].trial)) {
            found = meant[k];
        }
    }
    return found;
}

static bool begins_config(const struct pst_record *records, uint32_t i)
{
    return i == 0 || strcmp(records[i].config, records[i - 1].config) != 0;
}

/* The first names that there are. */
static void hint_names(const struct pst_record *records, uint32_t n, struct pst_error *err)
{
    struct pst_arena arena = {0};
    const char *names[8];
    uint32_t n_names = 0;

    for (uint32_t i = 0; i < n && n_names < 8; i++) {
        char triple[512];
        const char *name = records[i].method != NULL ? records[i].method : triple;
        bool is_new = true;

        write_triple(&records[i], triple, sizeof triple);
        for (uint32_t k = 0; k < n_names; k++) {
            is_new &= strcmp(names[k], name) != 0;
        }
        if (is_new) {
            names[n_names++] = pst_arena_strdup(&arena, name);
        }
    }
    pst_error_hint_words(err, "name a scheduler, the number of a row, or one of", names, n_names);
    pst_arena_finish(&arena);
}

pst_status pst_versus_check(const struct pst_record *records, uint32_t n, const char *baseline,
                            struct pst_error *err)
{
    uint32_t n_meant, *meant = find_meant(records, n, baseline, &n_meant);
    pst_status status = PST_OK;

    for (uint32_t i = 0; i < n && status == PST_OK; i++) {
        if (begins_config(records, i) &&
            baseline_of(records, &records[i], meant, n_meant) == PST_NONE) {
            status = pst_fail(err, PST_ERR_CONFIG, "config.value",
                              "--baseline: no combination of %s is called \"%s\"",
                              records[i].config, baseline);
            hint_names(records, n, err);
        }
    }
    free(meant);
    return status;
}

/* --- figures -----------------------------------------------------------------------------------*/

/* The records of one config that are done, and what rounds all of them have. */
struct family {
    uint32_t n, n_rounds;
    uint32_t *records, *place; /* [n]; [all records] their place among these, or PST_NONE */
    double *logs;              /* [n][n_rounds] */
    struct pst_blocks blocks;
};

static void collect(struct family *family, const struct pst_record *records, uint32_t n,
                    const char *config)
{
    family->n_rounds = UINT32_MAX;
    for (uint32_t i = 0; i < n; i++) {
        const struct pst_trial *trial = &records[i].trial;

        if (strcmp(records[i].config, config) == 0 && trial->state == PST_TRIAL_DONE) {
            family->place[i] = family->n;
            family->records[family->n++] = i;
            family->n_rounds =
                trial->n_rounds < family->n_rounds ? trial->n_rounds : family->n_rounds;
        }
    }
    if (family->n < 2 || family->n_rounds < 2) {
        family->n_rounds = 0;
        return;
    }
    family->logs = pst_alloc((size_t)family->n * family->n_rounds, sizeof *family->logs);
    for (uint32_t k = 0; k < family->n; k++) {
        for (uint32_t r = 0; r < family->n_rounds; r++) {
            family->logs[k * family->n_rounds + r] =
                log(pst_trial_round_ns(&records[family->records[k]].trial, r));
        }
    }
    pst_blocks_init(family->logs, family->n, family->n_rounds, &family->blocks);
}

/* Compares a with b, which are places in the family. */
static struct pst_versus compare(const struct family *family, const struct pst_record *records,
                                 uint32_t a, uint32_t b)
{
    const struct pst_trial *other = &records[family->records[b]].trial;
    const double rate = pst_trial_samples_per_second(&records[family->records[a]].trial);
    struct pst_versus versus = {.known = true, .record = family->records[b]};

    /* of what the table shows; its interval is that of the rounds beside each other */
    versus.speedup = rate / pst_trial_samples_per_second(other);
    if (family->n_rounds > 0 && a != b) {
        const double batch = log((double)records[family->records[a]].trial.batch / other->batch);
        const struct pst_difference d = pst_blocks_compare(&family->blocks, b, a);

        versus.tested = true;
        versus.low = exp(d.mean + batch - d.half);
        versus.high = exp(d.mean + batch + d.half);
        versus.p = d.p;
    }
    return versus;
}

static uint32_t fastest(const struct family *family, const struct pst_record *records)
{
    uint32_t best = 0;

    for (uint32_t k = 1; k < family->n; k++) {
        if (pst_trial_samples_per_second(&records[family->records[k]].trial) >
            pst_trial_samples_per_second(&records[family->records[best]].trial)) {
            best = k;
        }
    }
    return best;
}

/* The config of the record. */
static void compare_family(struct pst_record *records, uint32_t n, uint32_t first,
                           const uint32_t *meant, uint32_t n_meant)
{
    struct family family = {.records = pst_alloc(n, sizeof *family.records),
                            .place = pst_alloc(n, sizeof *family.place)};
    uint32_t best;

    memset(family.place, 0xFF, n * sizeof *family.place);
    collect(&family, records, n, records[first].config);
    best = family.n > 0 ? fastest(&family, records) : 0;
    for (uint32_t k = 0; k < family.n; k++) {
        const uint32_t i = family.records[k];
        const uint32_t base = baseline_of(records, &records[i], meant, n_meant);

        records[i].best = compare(&family, records, k, best);
        if (base != PST_NONE && family.place[base] != PST_NONE) {
            records[i].baseline = compare(&family, records, k, family.place[base]);
        }
    }
    free(family.logs);
    free(family.place);
    free(family.records);
}

void pst_versus_all(struct pst_record *records, uint32_t n, const char *baseline)
{
    uint32_t n_meant, *meant = find_meant(records, n, baseline, &n_meant);

    for (uint32_t i = 0; i < n; i++) {
        if (begins_config(records, i)) {
            compare_family(records, n, i, meant, n_meant);
        }
    }
    free(meant);
}
