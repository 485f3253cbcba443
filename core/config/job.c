/* SPDX-License-Identifier: Apache-2.0 */
#include "config/job.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "config/report.h"

#define MOST_PARTS 1024 /* of a replica, as the range of parallel.tensor says */
#define MAX_MEMOPT (sizeof((struct pst_job *)NULL)->memopt / sizeof(struct pst_config_node *))

static const struct pst_job_training none, *told = &none;

/* Accepted, so that one file serves later versions too, but without effect in this one. */
static const char *const idle[] = {"limits", NULL};

/* How an item of a list begins. */
struct item {
    const char *match;
};

/* Tables in a section that come one after the other: [[train.group]]. */
static const struct list {
    const char *section, *key, *name;
    const char *what, *of, *needs; /* what they are, what `match` names, a key that must be there */
    size_t items, size, n;
    uint32_t most;
} lists[] = {
    {"train", "group", "train.group", "groups of parameters", "parameters", NULL,
     offsetof(struct pst_job, groups), sizeof(struct pst_job_group),
     offsetof(struct pst_job, n_groups), PST_MAX_GROUPS},
    {"parallel", "way", "parallel.way", "ways of operators", "operators", "way",
     offsetof(struct pst_job, ways), sizeof(struct pst_job_way), offsetof(struct pst_job, n_ways),
     PST_MAX_WAYS},
};

/* NULL: the section has none. */
static const struct list *list_in(const char *section)
{
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        if (strcmp(lists[i].section, section) == 0) {
            return &lists[i];
        }
    }
    return NULL;
}

static struct pst_job_section *find_section(const char *name)
{
    struct pst_job_section *section = pst_job_sections;

    while (section->name != NULL && strcmp(section->name, name) != 0) {
        section++;
    }
    return section;
}

/* Appends rows to those of a section of core; their values follow its values. */
static void join_rows(struct pst_job_section *section, const struct pst_job_section *more)
{
    static struct pst_param joined[64];
    struct pst_param *rows = joined + section->n_rows;

    PST_ASSERT(section->more == NULL &&
               section->n_rows + more->n_rows <= sizeof joined / sizeof *joined);
    memcpy(joined, section->rows, section->n_rows * sizeof *joined);
    memcpy(rows, more->rows, more->n_rows * sizeof *rows);
    for (uint32_t i = 0; i < more->n_rows; i++) {
        rows[i].offset += (uint32_t)section->size;
    }
    section->rows = joined;
    section->n_rows += more->n_rows;
    section->more = more;
}

void pst_job_set_training(const struct pst_job_training *training)
{
    if (told == training) {
        return;
    }
    PST_ASSERT(told == &none);
    told = training;
    for (uint32_t i = 0; i < training->n_sections; i++) {
        struct pst_job_section *section = find_section(training->sections[i].name);

        if (section->name != NULL) {
            join_rows(section, &training->sections[i]);
        } else {
            PST_ASSERT(section < pst_job_sections + PST_MAX_SECTIONS);
            *section = training->sections[i];
        }
    }
}

/* Is it a word in the range of the section's first row, such as kind in [data]? */
static bool first_key_takes(const struct pst_job_section *section, const char *word)
{
    uint32_t index;

    return section->name != NULL &&
           (section->rows[0].type == PST_PARAM_ENUM || section->names_plugin != NULL) &&
           pst_params_word(section->rows[0].range, word, &index);
}

/* The keys of a table that the section reads: where it names a plugin, those of all plugins. */
static struct pst_config_node *own_part(const struct pst_job_section *section,
                                        struct pst_config_node *table, struct pst_arena *arena)
{
    const struct pst_config_node *name =
        section->names_plugin == NULL ? NULL : pst_config_get(table, section->names_plugin);
    struct pst_config_node *own;

    if (name == NULL || name->kind != PST_CONFIG_STRING ||
        first_key_takes(section, name->value.string)) {
        return table;
    }
    own = pst_arena_alloc(arena, sizeof *own, 0);
    *own = *table;
    own->children = pst_arena_array(arena, table->n_children + 1, sizeof *own->children);
    own->n_children = 0;
    for (uint32_t i = 0; i < table->n_children; i++) {
        if (pst_text_is_one_of(section->of_plugins, table->children[i]->key)) {
            own->children[own->n_children++] = table->children[i];
        }
    }
    return own;
}

/* PST_OK also for errors that went to the report: only a lack of memory ends the reading. */
static pst_status fill_table(const struct pst_job_section *section, struct pst_config_node *table,
                             struct pst_job *job, void *to, struct pst_report *report,
                             struct pst_error *err)
{
    const struct list *list = list_in(section->name);
    const char *const others[] = {list == NULL ? NULL : list->key, NULL};
    struct pst_error found;
    const struct pst_job_section *more = section->more;
    char *both = more == NULL ? to : pst_arena_alloc(&job->arena, section->size + more->size, 0);
    char name[64];
    pst_status status;

    snprintf(name, sizeof name, "[%s]", section->name);
    status = pst_params_fill(section->rows, section->n_rows, sizeof *section->rows,
                             own_part(section, table, &job->arena), name, others, &job->arena, both,
                             &found);
    if (more != NULL) {
        memcpy(to, both, section->size);
        memcpy((char *)job->training + more->offset, both + section->size, more->size);
    }
    if (status == PST_ERR_CONFIG) {
        pst_report_merge(report, &found);
        return PST_OK;
    }
    return status == PST_OK ? PST_OK : pst_error_pass(err, &found);
}

static pst_status fill_section(const struct pst_job_section *section, struct pst_config_node *table,
                               struct pst_job *job, struct pst_report *report,
                               struct pst_error *err)
{
    char *of = section->training ? (char *)job->training : (char *)job;

    return fill_table(section, table, job, of + section->offset, report, err);
}

/* Something else where a table is wanted. A string may be meant for the key that is named first. */
static void report_no_table(struct pst_report *report, const struct pst_config_node *node,
                            const char *table)
{
    const struct pst_job_section *section = find_section(table);
    char word[64], name[64], set[PST_JOB_KEY_TEXT + 64], quoted[PST_SHELL_TEXT];
    struct pst_job_meant meant;

    snprintf(name, sizeof name, strcmp(table, "memopt") == 0 ? "[[%s]]" : "[%s]", table);
    if (node->kind != PST_CONFIG_STRING || !pst_job_key_meant(table, &meant)) {
        const bool list = node->kind == PST_CONFIG_ARRAY && node->n_children > 0 &&
                          node->children[0]->kind == PST_CONFIG_TABLE;

        pst_report_value(report, "config.value", node, "%s must be a table%s%s%s", name,
                         list ? "; write " : "", list ? name : "",
                         list ? ", with one pair of brackets" : "");
        return;
    }
    if (first_key_takes(section, node->value.string)) {
        snprintf(meant.key, sizeof meant.key, "%s.%s", table, section->rows[0].key);
    }
    pst_report_word(word, node->value.string);
    if (strcmp(node->file, "--set") == 0) {
        snprintf(set, sizeof set, "%s=%s", meant.key, word);
        pst_report_value(report, "config.value", node, "%s must be a table; did you mean %s?", name,
                         pst_text_for_shell(quoted, set));
    } else {
        pst_report_value(report, "config.value", node,
                         "%s must be a table; did you mean %s = \"%s\"?", name, meant.key, word);
    }
}

static pst_status read_item(const struct list *list, struct pst_config_node *table,
                            struct pst_job *job, struct pst_report *report, struct pst_error *err)
{
    uint32_t *n = (uint32_t *)((char *)job + list->n);
    struct item *item = (void *)((char *)job + list->items + list->size * *n);
    pst_status status;

    if (table->kind != PST_CONFIG_TABLE) {
        pst_report_value(report, "config.value", table, "[[%s]] must be a table", list->name);
        return PST_OK;
    }
    if (*n == list->most) {
        pst_report_value(report, "config.limit", table, "more than %u %s ([[%s]])", list->most,
                         list->what, list->name);
        return PST_OK;
    }
    ++*n;
    status = fill_table(find_section(list->name), table, job, item, report, err);
    if (status == PST_OK && item->match != NULL && item->match[0] == '\0') {
        pst_report_value(report, "config.value", table,
                         "[[%s]]: match = \"...\" is missing: it names %s", list->name, list->of);
    } else if (status == PST_OK && list->needs != NULL &&
               pst_config_get(table, list->needs) == NULL) {
        pst_report_value(report, "config.value", table, "[[%s]]: %s = \"...\" is missing",
                         list->name, list->needs);
    }
    return status;
}

/* Reads the list of a section whose other keys have been read. */
static pst_status read_list(const struct list *list, struct pst_config_node *section,
                            struct pst_job *job, struct pst_report *report, struct pst_error *err)
{
    struct pst_config_node *node = pst_config_get(section, list->key);
    pst_status status = PST_OK;

    if (node == NULL || node->kind != PST_CONFIG_ARRAY) {
        return node == NULL ? PST_OK : read_item(list, node, job, report, err);
    }
    for (uint32_t i = 0; i < node->n_children && status == PST_OK; i++) {
        node->children[i]->used = true;
        status = read_item(list, node->children[i], job, report, err);
    }
    return status;
}

static void read_memopt(struct pst_config_node *node, struct pst_job *job,
                        struct pst_report *report)
{
    if (node->kind == PST_CONFIG_TABLE) {
        job->memopt[job->n_memopt++] = node;
        return;
    }
    if (node->kind != PST_CONFIG_ARRAY) {
        report_no_table(report, node, "memopt");
        return;
    }
    for (uint32_t i = 0; i < node->n_children; i++) {
        struct pst_config_node *table = node->children[i];

        if (table->kind != PST_CONFIG_TABLE) {
            report_no_table(report, table, "memopt");
        } else if (job->n_memopt == MAX_MEMOPT) {
            pst_report_value(report, "config.limit", table,
                             "more than %zu memory optimizers ([[memopt]])", MAX_MEMOPT);
            return;
        } else {
            table->used = true;
            job->memopt[job->n_memopt++] = table;
        }
    }
}

static struct pst_config_node **table_slot(struct pst_job *job, const char *name)
{
    struct {
        const char *name;
        struct pst_config_node **slot;
    } slots[] = {{"model", &job->model},
                 {"cluster", &job->cluster},
                 {"partitioner", &job->partitioner},
                 {"scheduler", &job->scheduler}};

    for (size_t i = 0; i < sizeof slots / sizeof *slots; i++) {
        if (strcmp(slots[i].name, name) == 0) {
            return slots[i].slot;
        }
    }
    return NULL;
}

static void report_unknown(const struct pst_config_node *node, struct pst_report *report)
{
    bool table = node->kind == PST_CONFIG_TABLE;
    char word[64], hint[96];
    struct pst_job_meant meant;
    const bool has_key = !table && pst_job_key_meant(node->key, &meant);
    uint32_t n = 0;

    while (pst_job_tables[n] != NULL) {
        n++;
    }
    pst_report_word(word, node->key);
    if (has_key && meant.table != NULL) {
        pst_report_key(report, "config.key", node, "\"%s\" belongs into [%s]", word, meant.table);
    } else if (has_key) {
        pst_report_key(report, "config.key", node, "unknown key \"%s\"; did you mean %s%s?", word,
                       meant.key, meant.remark);
    } else {
        pst_report_key(report, "config.key", node, "unknown %s \"%s\"%s", table ? "section" : "key",
                       word, pst_nearest_hint(hint, node->key, pst_job_tables, n));
        if (table && hint[0] == '\0' && report->count == 1) {
            pst_error_hint_words(&report->first, "a config has", pst_job_tables, n);
        }
    }
}

static pst_status read_top(struct pst_config_node *node, struct pst_job *job,
                           struct pst_report *report, struct pst_error *err)
{
    const struct pst_job_section *section = find_section(node->key);
    struct pst_config_node **slot = table_slot(job, node->key);

    if (!pst_text_is_one_of(pst_job_tables, node->key)) {
        report_unknown(node, report);
        return PST_OK;
    }
    node->used = true;
    if (strcmp(node->key, "memopt") == 0) {
        read_memopt(node, job, report);
        return PST_OK;
    }
    if (section->name != NULL && node->kind != PST_CONFIG_TABLE) {
        report_no_table(report, node, section->name);
        return PST_OK;
    }
    if (section->name != NULL) {
        pst_status status = fill_section(section, node, job, report, err);

        return status == PST_OK && list_in(section->name) != NULL
                   ? read_list(list_in(section->name), node, job, report, err)
                   : status;
    }
    if (node->kind != PST_CONFIG_TABLE) {
        report_no_table(report, node, node->key);
    } else if (slot != NULL) {
        *slot = node;
    } else if (pst_text_is_one_of(idle, node->key)) {
        pst_log(PST_LOG_WARN, "config", "[%s] has no effect in this version", node->key);
    }
    return PST_OK;
}

/* Paths among the values of plugins and models are known by their type (PST_PARAM_PATH). */
static void resolve_paths(struct pst_config *config, const struct pst_job_section *section,
                          struct pst_arena *arena)
{
    struct pst_config_node *table =
        own_part(section, pst_config_get(config->root, section->name), arena);

    for (const char *const *key = section->paths; key != NULL && *key != NULL; key++) {
        pst_config_resolve(config, table, *key);
    }
    for (const char *const *key = section->path_lists; key != NULL && *key != NULL; key++) {
        pst_config_resolve_all(config, table, *key);
    }
    if (section->more != NULL) {
        resolve_paths(config, section->more, arena);
    }
}

static pst_status read_all(struct pst_config *config, struct pst_job *job,
                           struct pst_report *report, struct pst_error *err)
{
    pst_status status = PST_OK;

    for (uint32_t i = 0; status == PST_OK && pst_job_sections[i].name != NULL; i++) {
        resolve_paths(config, &pst_job_sections[i], &job->arena);
        status = fill_section(&pst_job_sections[i], NULL, job, report, err);
    }
    for (uint32_t i = 0; status == PST_OK && i < config->root->n_children; i++) {
        status = read_top(config->root->children[i], job, report, err);
    }
    return status;
}

/* The divisors of batch next to wanted, 0 where there is none on that side. */
static void near_divisors(int64_t batch, int64_t wanted, int64_t *ret_below, int64_t *ret_above)
{
    int64_t below = wanted < batch ? wanted : batch, above = wanted;

    while (batch % below != 0) {
        below--;
    }
    while (above <= batch && batch % above != 0) {
        above++;
    }
    *ret_below = below;
    *ret_above = above <= batch ? above : 0;
}

const struct pst_config_node *pst_job_blame(struct pst_config_node *table, const char *key,
                                            const char *partner)
{
    struct pst_config_node *node = pst_config_get(table, key);

    if (node == NULL) {
        node = pst_config_get(table, partner);
    }
    return node == NULL ? table : node;
}

static void check_batch(const struct pst_job *job, struct pst_config_node *table,
                        struct pst_report *report)
{
    const struct pst_job_train *train = &job->train;
    const struct pst_config_node *at;
    int64_t below, above;
    char choice[64];

    if (train->batch % train->microbatch == 0) {
        return;
    }
    at = pst_job_blame(table, "microbatch", "batch");
    near_divisors(train->batch, train->microbatch, &below, &above);
    if (above == 0) {
        snprintf(choice, sizeof choice, "%" PRId64, below);
    } else {
        snprintf(choice, sizeof choice, "%" PRId64 " or %" PRId64, below, above);
    }
    pst_report_value(report, "config.value", at,
                     "\"microbatch\" in [train] is %" PRId64
                     ", which does not divide batch = %" PRId64 "; %s would",
                     train->microbatch, train->batch, choice);
}

/* Numbers separated by commas, each once, from 1 to `most`; false: they are others. */
static bool read_degrees(const char *text, int64_t most, uint32_t degrees[PST_MAX_DEGREES],
                         uint32_t *ret_n)
{
    uint32_t n = 0;

    for (;;) {
        char *end;
        long degree;
        bool ok;

        text += strspn(text, " ");
        degree = *text >= '0' && *text <= '9' ? strtol(text, &end, 10) : 0;
        ok = degree > 0 && degree <= most && n < PST_MAX_DEGREES;
        for (uint32_t i = 0; ok && i < n; i++) {
            ok = degrees[i] != (uint32_t)degree;
        }
        if (!ok) {
            return false;
        }
        degrees[n++] = (uint32_t)degree;
        *ret_n = n;
        end += strspn(end, " ");
        if (*end != ',') {
            return *end == '\0';
        }
        text = end + 1;
    }
}

/* The batch can be dealt to so many. */
static void check_degrees(struct pst_job_train *train, struct pst_config_node *table,
                          struct pst_report *report)
{
    const struct pst_config_node *at = pst_job_blame(table, "degrees", "batch");
    const bool ok = read_degrees(train->degrees, train->batch, train->degree, &train->n_degrees);

    for (uint32_t i = 0; i < train->n_degrees; i++) {
        if (train->batch % train->degree[i] != 0) {
            pst_report_value(report, "config.value", at,
                             "\"degrees\" in [train] holds %u, but %u replicas cannot share "
                             "batch = %" PRId64,
                             train->degree[i], train->degree[i], train->batch);
        }
    }
    if (!ok) {
        pst_report_value(
            report, "config.value", at,
            "\"degrees\" in [train] must be different numbers of replicas from 1 on, such "
            "as [1, 2], not \"%s\"",
            train->degrees);
    }
}

static void check_tensor(struct pst_job_parallel *parallel, struct pst_config_node *table,
                         struct pst_report *report)
{
    if (!read_degrees(parallel->tensor, MOST_PARTS, parallel->tensors, &parallel->n_tensors)) {
        pst_report_value(report, "config.value", pst_job_blame(table, "tensor", "tensor"),
                         "\"tensor\" in [parallel] must be different numbers of devices from 1 "
                         "to %d, such as [1, 2], not \"%s\"",
                         MOST_PARTS, parallel->tensor);
    }
}

pst_status pst_job_read(struct pst_config *config, struct pst_job *ret_job, struct pst_error *err)
{
    struct pst_config_node *train = pst_config_get(config->root, "train");
    struct pst_report report = {.count = 0};
    struct pst_job job = {.config = config};
    pst_status status;

    job.training = told->size > 0 ? pst_arena_alloc(&job.arena, told->size, 0) : NULL;
    status = read_all(config, &job, &report, err);
    if (status == PST_OK) {
        /* Relations make sense only between values that are right by themselves. */
        if (report.count == 0) {
            check_batch(&job, train, &report);
            check_degrees(&job.train, train, &report);
            check_tensor(&job.parallel, pst_config_get(config->root, "parallel"), &report);
            if (told->check != NULL) {
                told->check(&job, &report);
            }
        }
        status = pst_report_finish(&report, err);
    }
    if (status != PST_OK) {
        pst_job_finish(&job);
        return status;
    }
    *ret_job = job;
    return PST_OK;
}

void pst_job_finish(struct pst_job *job)
{
    pst_arena_finish(&job->arena);
    memset(job, 0, sizeof *job);
}

uint32_t pst_job_optimizer_slots(const struct pst_job *job)
{
    uint32_t optimizer = job->train.optimizer;

    return optimizer == 0 ? 0 : optimizer == 1 ? 1 : 2; /* sgd, momentum, those with adamw */
}

const char *pst_job_word(const struct pst_job *job, const char *section, const char *key,
                         char text[64])
{
    const struct pst_job_section *of = find_section(section);
    const char *word = "";
    uint32_t index = 0;

    for (uint32_t i = 0; i < of->n_rows; i++) {
        if (strcmp(of->rows[i].key, key) == 0) {
            word = of->rows[i].range;
            memcpy(&index, (const char *)job + of->offset + of->rows[i].offset, sizeof index);
        }
    }
    while (index-- > 0) {
        word += strcspn(word, "|") + 1;
    }
    snprintf(text, 64, "%.*s", (int)strcspn(word, "|"), word);
    return text;
}
