/* SPDX-License-Identifier: Apache-2.0
 *
 * A data plugin (pst.data/1) as a kind of data: it is found, checked and made like other plugins,
 * but in this process. Its samples come in the order of data_order.c, and each read is judged. What
 * is wrong with them is the plugin's fault, by name.
 */
#include "data/data_plugin.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/memory.h"
#include "base/text.h"
#include "data/data_impl.h"
#include "host/plugin_host.h"

struct pst_data_plugin {
    const struct pst_data_interface *calls;
    struct pst_instance *instance;
    const char *file; /* for breadcrumbs, of which each thread has its own */
    struct pst_arena arena;
    struct pst_data_shape shape; /* the plugin's until it is destroyed */
    pthread_mutex_t failing;     /* instance->failure is in use */
};

/* What the plugin said of the failure that this thread's call is about to return. */
static _Thread_local struct pst_error said;

static pst_status fail_here(const struct pst_host *host, pst_status code, const char *msg)
{
    (void)host;
    pst_fail(&said, code, "plugin.contract", "%s", msg != NULL ? msg : "");
    pst_text_make_plain(said.message);
    return code;
}

static pst_status fail_call(struct pst_data_plugin *plugin, pst_status status, const char *function,
                            struct pst_error *err)
{
    pthread_mutex_lock(&plugin->failing);
    plugin->instance->failure = said;
    status = pst_instance_fail(plugin->instance, status, function, err);
    pthread_mutex_unlock(&plugin->failing);
    memset(&said, 0, sizeof said);
    return status;
}

static pst_status fail_contract(const struct pst_data_plugin *plugin, const char *fault,
                                struct pst_error *err)
{
    return pst_fail(err, PST_ERR_BUG, "plugin.contract", "data \"%s\" broke its contract: %s",
                    plugin->instance->plugin->id, fault);
}

/* --- which plugin, with which parameters ------------------------------------------------------ */

static bool is_row(const struct pst_param *rows, uint32_t n, size_t row_size, const char *key)
{
    bool found = false;

    for (uint32_t i = 0; i < n; i++) {
        const void *row = (const char *)rows + i * row_size;

        found = found || strcmp(((const struct pst_param *)row)->key, key) == 0;
    }
    return found;
}

/* Is it a key that [data] has for all kinds? */
static bool is_own_key(const char *key)
{
    const struct pst_job_section *section = pst_job_sections;

    while (section->name != NULL && strcmp(section->name, "data") != 0) {
        section++;
    }
    return is_row(section->rows, section->n_rows, sizeof *section->rows, key);
}

/* The part of [data] that is the plugin's: what it has rows for, and keys that nobody knows, which
   become an error there. A key of other kinds that it has no row for is a mistake, except with a
   plugin that stands for a built-in kind (data_kinds.c). NULL in *ret_table: there is none. */
static pst_status own_table(const struct pst_job *job, struct pst_data *data,
                            const struct pst_plugin *plugin, struct pst_config_node **ret_table,
                            struct pst_error *err)
{
    struct pst_config_node *all =
        job->config == NULL ? NULL : pst_config_get(job->config->root, "data");
    struct pst_config_node *own;

    if (all == NULL || all->kind != PST_CONFIG_TABLE) {
        return PST_OK;
    }
    own = pst_arena_alloc(&data->plugin->arena, sizeof *own, 0);
    *own = *all;
    own->children =
        pst_arena_array(&data->plugin->arena, all->n_children + 1, sizeof *own->children);
    own->n_children = 0;
    for (uint32_t i = 0; i < all->n_children; i++) {
        const char *key = all->children[i]->key;
        const bool has_row = is_row(plugin->params, plugin->n_params, plugin->param_size, key);

        if (strcmp(key, "kind") == 0 || strcmp(key, "path") == 0 || strcmp(key, "seed") == 0) {
            continue;
        }
        if (!has_row && is_own_key(key) && data->kind->id == NULL) {
            return pst_config_place(job->config, "data", key,
                                    pst_fail(err, PST_ERR_CONFIG, "config.value",
                                             "data.%s is not read with data.kind = \"%s\"; leave "
                                             "it out",
                                             key, plugin->id),
                                    err);
        }
        if (has_row || !is_own_key(key)) {
            own->children[own->n_children++] = all->children[i];
        }
    }
    for (uint32_t i = 0; i < plugin->n_params; i++) {
        const struct pst_param *row = pst_plugin_param(plugin, i);

        if (row->type == PST_PARAM_PATH) {
            pst_config_resolve(job->config, own, row->key);
        }
    }
    *ret_table = own;
    return PST_OK;
}

/* The plugin's file, if the job names one. A plugin that stands for a built-in kind is searched
   for: it ignores the keys of other kinds, and so the path of another plugin. */
static const char *given_file(const struct pst_job *job)
{
    const struct pst_job_data *given = &job->training->data;
    const bool is_read = pst_data_kind_of(given->kind)->id == NULL;

    return !is_read || given->path == NULL || given->path[0] == '\0' ? NULL : given->path;
}

pst_status pst_data_is_foreign(const struct pst_job *job, bool *ret_foreign, struct pst_error *err)
{
    const char *id = job->training->data.kind;

    *ret_foreign = false;
    if (pst_data_is_built_in(id)) {
        return PST_OK;
    }
    return pst_plugin_is_foreign("data", id, given_file(job), job->plugins.path,
                                 job->plugins.time_limit, ret_foreign, err);
}

/* It cannot run in a process of its own. */
static pst_status check_isolation(const struct pst_job *job, struct pst_error *err)
{
    return job->plugins.isolate != PST_ISOLATE_ALWAYS
               ? PST_OK
               : pst_fail(err, PST_ERR_CONFIG, "config.value",
                          "plugins.isolate = \"always\": the data plugin \"%s\" runs in the "
                          "process that trains; set plugins.isolate = \"auto\", or another "
                          "data.kind",
                          job->training->data.kind);
}

static void add_text(struct pst_hasher *hasher, const char *text)
{
    pst_hasher_add(hasher, text, strlen(text) + 1);
}

static void add_value(struct pst_hasher *hasher, const struct pst_param *row, const void *config)
{
    const void *value = (const char *)config + row->offset;

    add_text(hasher, row->key);
    switch (row->type) {
    case PST_PARAM_BOOL:
        pst_hasher_add(hasher, value, sizeof(bool));
        break;
    case PST_PARAM_ENUM:
        pst_hasher_add(hasher, value, sizeof(uint32_t));
        break;
    case PST_PARAM_STRING:
        add_text(hasher, *(const char *const *)value);
        break;
    case PST_PARAM_PATH: /* files may be moved; samples are compared by themselves */
        break;
    default:
        pst_hasher_add(hasher, value, sizeof(uint64_t));
        break;
    }
}

/* Another version, or other parameters, may read other samples after the first ones. */
static uint64_t digest_instance(const struct pst_instance *instance)
{
    const struct pst_plugin *plugin = instance->plugin;
    struct pst_hasher *hasher = pst_hasher_create();
    struct pst_hash hash;

    add_text(hasher, plugin->id);
    add_text(hasher, plugin->version);
    for (uint32_t i = 0; i < plugin->n_params; i++) {
        add_value(hasher, pst_plugin_param(plugin, i), instance->config);
    }
    hash = pst_hasher_end(hasher);
    pst_hasher_destroy(hasher);
    return hash.low;
}

static pst_status make_instance(const struct pst_job *job, struct pst_data *data,
                                struct pst_error *err)
{
    static const struct pst_host_context nothing;
    struct pst_data_plugin *plugin = data->plugin;
    const char *id = job->training->data.kind, *path = given_file(job);
    const struct pst_plugin *found = NULL;
    struct pst_config_node *table = NULL;
    bool foreign = false;
    pst_status status = pst_data_is_foreign(job, &foreign, err);

    PST_TRY(status, foreign ? check_isolation(job, err) : PST_OK);
    PST_TRY(status, pst_plugin_find("data", id, path, job->plugins.path, &found, err));
    status = pst_config_place(job->config, "data", path == NULL ? "kind" : "path", status, err);
    PST_TRY(status, own_table(job, data, found, &table, err));
    if (status != PST_OK) {
        return status;
    }
    plugin->file =
        path != NULL ? path : pst_plugin_where(&plugin->arena, "data", id, job->plugins.path);
    plugin->calls = found->get_interface(PST_DATA);
    status = pst_instance_create(found, table, &nothing, &plugin->instance, err);
    if (status == PST_OK) {
        plugin->instance->host.fail = fail_here;
        data->reader = foreign ? digest_instance(plugin->instance) : 0;
    }
    return status;
}

/* --- its samples ------------------------------------------------------------------------------ */

/* Values below which the elements of an input stay. Tokens of X that are hidden become targets. */
static uint64_t range_of(const struct pst_data *data, const struct pst_tensor *tensor)
{
    const struct pst_sample_shape *shape = &data->shape;

    if (tensor == shape->x && shape->target->field == PST_FIELD_MASKED) {
        return pst_data_vocab(data);
    }
    return tensor == shape->target ? shape->classes
                                   : shape->vocabs[pst_sample_input(shape, tensor)];
}

static void fill_shape(struct pst_data *data)
{
    const struct pst_sample_shape *shape = &data->shape;
    struct pst_data_input *inputs =
        pst_arena_array(&data->plugin->arena, shape->n_inputs, sizeof *inputs);

    for (uint32_t i = 0; i < shape->n_inputs; i++) {
        const struct pst_tensor *tensor = &shape->inputs[i];

        inputs[i] = (struct pst_data_input){.name = tensor->name,
                                            .field = tensor->field,
                                            .dtype = tensor->dtype,
                                            .rank = tensor->rank,
                                            .dims = tensor->dims,
                                            .elems = tensor->elems,
                                            .bytes = tensor->bytes,
                                            .range = range_of(data, tensor)};
    }
    data->plugin->shape = (struct pst_data_shape){.size = sizeof data->plugin->shape,
                                                  .n_inputs = shape->n_inputs,
                                                  .input_size = sizeof *inputs,
                                                  .inputs = inputs,
                                                  .seed = data->seed};
}

static void enter_plugin(const struct pst_data_plugin *plugin, enum pst_plugin_call call)
{
    pst_breadcrumb_enter(pst_breadcrumb_plugin("data", plugin->instance->plugin->id, plugin->file),
                         call);
}

static uint64_t count_samples(const struct pst_data_plugin *plugin, uint32_t split)
{
    uint64_t n;

    enter_plugin(plugin, PST_CRUMB_SAMPLES);
    n = plugin->calls->samples(plugin->instance->self, split);
    pst_breadcrumb_leave();
    return n;
}

/* Numbers of samples are shuffled, which takes up to 2^62; or those of the run. */
static pst_status count_splits(const struct pst_job *job, struct pst_data *data,
                               struct pst_error *err)
{
    for (uint32_t split = 0; split < 2; split++) {
        uint64_t n = count_samples(data->plugin, split);

        if (n > (uint64_t)1 << 62 && n != UINT64_MAX) {
            return fail_contract(data->plugin,
                                 "samples() returned more than 2^62, and not UINT64_MAX", err);
        }
        data->sequences[split] = n;
    }
    return data->sequences[PST_SPLIT_TRAIN] > 0
               ? PST_OK
               : pst_config_place(job->config, "data", "kind",
                                  pst_fail(err, PST_ERR_CONFIG, "config.value",
                                           "data \"%s\" has no sample to train on",
                                           job->training->data.kind),
                                  err);
}

pst_status pst_plugin_data_open(const struct pst_job *job, struct pst_data *data,
                                struct pst_error *err)
{
    struct pst_data_plugin *plugin = data->plugin = pst_alloc(1, sizeof *plugin);
    pst_status status;

    pthread_mutex_init(&plugin->failing, NULL);
    status = make_instance(job, data, err);
    if (status != PST_OK) {
        return status;
    }
    fill_shape(data);
    pst_instance_enter(plugin->instance, PST_CRUMB_OPEN);
    status = plugin->calls->open(plugin->instance->self, &plugin->shape);
    pst_instance_leave(plugin->instance);
    if (status != PST_OK) {
        return fail_call(plugin, status, "open", err);
    }
    plugin->instance->concurrent = true;
    return count_splits(job, data, err);
}

void pst_plugin_data_close(struct pst_data *data)
{
    if (data->plugin != NULL) {
        pst_instance_destroy(data->plugin->instance);
        pst_arena_finish(&data->plugin->arena);
        pthread_mutex_destroy(&data->plugin->failing);
        free(data->plugin);
    }
}

/* Is element e a value that the model has? */
static bool is_value(const struct pst_data_input *input, int32_t ignored, const void *values,
                     uint64_t e)
{
    const bool target = input->field == PST_FIELD_TARGET;
    int32_t whole;

    switch (input->dtype) {
    case PST_F64:
        return isfinite(((const double *)values)[e]);
    case PST_F32:
        return isfinite(((const float *)values)[e]);
    case PST_BF16: /* all bits of the exponent: an infinity or no number */
        return (((const uint16_t *)values)[e] & 0x7F80) != 0x7F80;
    default:
        whole = ((const int32_t *)values)[e];
        return (whole >= 0 && (uint64_t)whole < input->range) ||
               (target && (whole == -1 || whole == ignored));
    }
}

static void explain_value(const struct pst_data_input *input, uint64_t first, const void *values,
                          uint64_t e, char ret_fault[256])
{
    char place[160];

    snprintf(place, sizeof place, "at index %llu of %.64s of sample %llu",
             (unsigned long long)(e % input->elems), input->name,
             (unsigned long long)(first + e / input->elems));
    if (input->dtype == PST_I32) {
        snprintf(ret_fault, 256, "read() gave %d %s, but the model has %llu values: 0 to %llu",
                 ((const int32_t *)values)[e], place, (unsigned long long)input->range,
                 (unsigned long long)input->range - 1);
    } else {
        snprintf(ret_fault, 256, "read() gave a number that is not finite %s", place);
    }
}

bool pst_data_judge(const struct pst_data_shape *shape, int32_t ignored, uint64_t first, uint32_t n,
                    void *const *inputs, char ret_fault[256])
{
    for (uint32_t k = 0; k < shape->n_inputs; k++) {
        const struct pst_data_input *input = pst_data_input_at(shape, k);
        const bool read = input->field == PST_FIELD_X || input->field == PST_FIELD_TARGET;

        for (uint64_t e = 0; read && e < n * input->elems; e++) {
            if (!is_value(input, ignored, inputs[k], e)) {
                explain_value(input, first, inputs[k], e, ret_fault);
                return false;
            }
        }
    }
    return true;
}

/* Memory for samples is used again. A plugin that leaves bytes of it gets zeros there, so that its
   fault is the same for all plans and resumed runs. */
static void clear_inputs(const struct pst_data_shape *shape, uint32_t n, void *const *inputs)
{
    for (uint32_t k = 0; k < shape->n_inputs; k++) {
        memset(inputs[k], 0, n * pst_data_input_at(shape, k)->bytes);
    }
}

/* Samples `at` ... of the plugin, n of them. */
static pst_status read_run(const struct pst_data *data, uint32_t split, uint64_t at, uint32_t n,
                           void *const *inputs, struct pst_error *err)
{
    struct pst_data_plugin *plugin = data->plugin;
    char fault[256];
    uint64_t samples;
    pst_status status;

    clear_inputs(&plugin->shape, n, inputs);
    enter_plugin(plugin, PST_CRUMB_READ);
    memset(&said, 0, sizeof said); /* of a call that did not fail after all */
    status = plugin->calls->read(plugin->instance->self, split, at, n, inputs);
    pst_breadcrumb_leave();
    if (plugin->instance->begged) {
        return fail_contract(plugin, PST_DATA_BEGGED, err);
    }
    if (status != PST_OK) {
        return fail_call(plugin, status, "read", err);
    }
    samples = count_samples(plugin, split);
    if (samples != data->sequences[split]) {
        snprintf(fault, sizeof fault, "samples() returned %llu for split %u, and then %llu",
                 (unsigned long long)data->sequences[split], split, (unsigned long long)samples);
        return fail_contract(plugin, fault, err);
    }
    return pst_data_judge(&plugin->shape, data->ignored, at, n, inputs, fault)
               ? PST_OK
               : fail_contract(plugin, fault, err);
}

static uint64_t number_of(const struct pst_data *data, uint32_t split, uint64_t index)
{
    const uint64_t n = data->sequences[split];

    return n == UINT64_MAX ? index : pst_data_shuffle(data->seed, split, n, index);
}

/* Numbers that follow each other are one call. */
pst_status pst_plugin_data_read(const struct pst_data *data, uint32_t split, uint64_t first,
                                uint32_t n, void *const *ret_inputs, struct pst_error *err)
{
    pst_status status = PST_OK;

    for (uint32_t i = 0, run; status == PST_OK && i < n; i += run) {
        const uint64_t at = number_of(data, split, first + i);
        void *inputs[PST_MAX_INPUTS];

        run = 1;
        while (i + run < n && number_of(data, split, first + i + run) == at + run) {
            run++;
        }
        for (uint32_t k = 0; k < data->shape.n_inputs; k++) {
            inputs[k] = (char *)ret_inputs[k] + (uint64_t)i * data->shape.inputs[k].bytes;
        }
        status = read_run(data, split, at, run, inputs, err);
    }
    return status;
}
