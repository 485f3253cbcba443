/* SPDX-License-Identifier: Apache-2.0 */
#include "tune/provenance.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/json.h"
#include "base/log.h"
#include "base/util.h"
#include "host/describe.h"
#include "host/search.h"
#include "measure/calibration.h"
#include "models/builder.h"

static const char *digest_of(struct pst_arena *arena, const char *path)
{
    char text[PST_HASH_TEXT];
    struct pst_hash hash;

    const bool read = path != NULL && pst_hash_file(AT_FDCWD, path, 0, &hash);

    if (!read && path != NULL && path[0] != '\0') {
        pst_log(PST_LOG_WARN, "hash", "%s cannot be read, so its XXH3 is not stated", path);
    }
    return read ? pst_arena_strdup(arena, pst_hash_text(&hash, text)) : "";
}

/* --- program and machine -----------------------------------------------------------------------*/

void pst_provenance_begin(struct pst_provenance *ret_provenance)
{
    struct pst_provenance *made = ret_provenance;
    struct pst_arena *arena = &made->arena;
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    const time_t now = time(NULL);
    struct utsname name;
    struct tm utc;
    char text[256] = "";

    memset(made, 0, sizeof *made);
    made->program = PENSTOCK_VERSION;
    made->program_digest = digest_of(arena, "/proc/self/exe");
    pst_machine_processor(text, sizeof text);
    made->cpu = pst_arena_strdup(arena, text);
    text[0] = '\0';
    made->host = made->kernel = "";
    if (uname(&name) == 0) {
        made->kernel = pst_arena_printf(arena, "%s %s", name.sysname, name.release);
        made->host = pst_arena_strdup(arena, name.nodename);
    }
    if (gmtime_r(&now, &utc) != NULL) {
        strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
    }
    made->time = pst_arena_strdup(arena, text);
    made->cores = pst_usable_cores();
    made->memory_bytes = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0;
    if (getloadavg(made->load, 3) != 3) {
        memset(made->load, 0, sizeof made->load);
    }
}

/* --- strategies --------------------------------------------------------------------------------*/

/* The value of a parameter that the config leaves out. */
static json_t *initial_value(const struct pst_param *row)
{
    json_t *value = NULL;

    if (row->initial != NULL && row->type != PST_PARAM_STRING && row->type != PST_PARAM_PATH) {
        value = json_loads(row->initial, JSON_DECODE_ANY, NULL);
    }
    return value != NULL ? value : row->initial == NULL ? json_null() : json_string(row->initial);
}

static const char *parameters_of(struct pst_arena *arena, const struct pst_plugin *plugin,
                                 const json_t *table)
{
    json_t *all = json_object();
    const char *copy;
    char *text;

    for (uint32_t i = 0; plugin != NULL && i < plugin->n_params; i++) {
        const struct pst_param *row = pst_plugin_param(plugin, i);
        json_t *given = json_object_get(table, row->key);

        json_object_set_new(all, row->key, given != NULL ? json_incref(given) : initial_value(row));
    }
    text = pst_json_text(all);
    copy = pst_arena_strdup(arena, text);
    free(text);
    json_decref(all);
    return copy;
}

/* table: what the config gives it; NULL: nothing, and its defaults mean nothing either. */
static void add_file(struct pst_provenance *provenance, struct pst_provenance_config *config,
                     const char *kind, const char *label, const char *id, const char *path,
                     const json_t *table, const struct pst_job *job)
{
    struct pst_arena *arena = &provenance->arena;
    const struct pst_plugin *plugin = NULL;
    struct pst_error err;

    if (path[0] == '\0') {
        pst_log(PST_LOG_WARN, id, "its file is not stated: no folder of plugins has it");
    } else if (pst_plugin_describe(arena, path, kind, id, job->plugins.time_limit, &plugin, NULL,
                                   &err) != PST_OK) {
        pst_log(PST_LOG_WARN, id, "its version and its defaults are not stated: %s", err.message);
    }
    config->plugins[config->n_plugins++] = (struct pst_provenance_plugin){
        .kind = kind,
        .id = pst_arena_strdup(arena, id),
        .version = plugin == NULL || plugin->version == NULL ? "" : plugin->version,
        .label = label,
        .path = pst_arena_strdup(arena, path),
        .digest = digest_of(arena, path),
        .parameters = parameters_of(arena, table == NULL ? NULL : plugin, table),
    };
}

static void add_plugin(struct pst_provenance *provenance, struct pst_provenance_config *config,
                       const char *kind, const char *label, const json_t *table,
                       const struct pst_job *job)
{
    const char *id = json_string_value(json_object_get(table, "use"));
    const char *path = json_string_value(json_object_get(table, "path"));

    if (id != NULL) {
        path =
            path != NULL ? path : pst_plugin_where(&provenance->arena, kind, id, job->plugins.path);
        add_file(provenance, config, kind, label, id, path, table, job);
    }
}

/* The model's plugin, unless it is built in, and the operators that the job lists. */
static void add_model(struct pst_provenance *provenance, struct pst_provenance_config *config,
                      const struct pst_job *job, const struct pst_combinations *set,
                      const struct pst_config_node *list)
{
    struct pst_arena *arena = &provenance->arena;
    const json_t *table = json_object_get(set->base, "model");
    const char *use = json_string_value(json_object_get(table, "use"));

    if (use != NULL && pst_model_builder_find(use) == NULL) {
        add_plugin(provenance, config, "model", "", table, job);
    }
    for (size_t i = 0; list != NULL && list->kind == PST_CONFIG_ARRAY && i < list->n_children;
         i++) {
        const char *name = list->children[i]->value.string, *kind, *id = name;

        if (list->children[i]->kind != PST_CONFIG_STRING) {
            continue;
        }
        if (pst_search_is_file(name)) {
            const char *slash = strrchr(name, '/');

            if (!pst_search_split(arena, slash == NULL ? name : slash + 1, &kind, &id)) {
                id = name;
            }
            add_file(provenance, config, "operator", "", id, name, NULL, job);
        } else {
            add_file(provenance, config, "operator", "", id,
                     pst_plugin_where(arena, "operator", id, job->plugins.path), NULL, job);
        }
    }
}

/* Methods may have a value in common. */
static bool is_known(const struct pst_axis *axis, uint32_t i)
{
    uint32_t k = 0;

    while (k < i && strcmp(axis->values[k].label, axis->values[i].label) != 0) {
        k++;
    }
    return k < i;
}

/* Adds the model's, and the plugins of all values of the strategies' axes. */
static void add_plugins(struct pst_provenance *provenance, struct pst_provenance_config *config,
                        const struct pst_job *job, const struct pst_combinations *set)
{
    static const char *const kinds[] = {"partitioner", "scheduler", "memopt"};
    const struct pst_config_node *operators =
        job->model == NULL ? NULL : pst_config_get(job->model, "operators");
    uint32_t room = 1 + (operators == NULL ? 0 : (uint32_t)operators->n_children);

    for (uint32_t a = 0; a <= PST_AXIS_MEMOPT; a++) {
        for (uint32_t i = 0; i < set->axes[a].n; i++) {
            const json_t *value = set->axes[a].values[i].value;

            value = value != NULL ? value : json_object_get(set->base, kinds[a]);
            room += json_is_array(value) ? (uint32_t)json_array_size(value) : 1;
        }
    }
    config->plugins = pst_arena_array(&provenance->arena, room, sizeof *config->plugins);
    add_model(provenance, config, job, set, operators);
    for (uint32_t a = 0; a <= PST_AXIS_MEMOPT; a++) {
        for (uint32_t i = 0; i < set->axes[a].n; i++) {
            const struct pst_axis_value *at = &set->axes[a].values[i];
            const json_t *value =
                at->value != NULL ? at->value : json_object_get(set->base, kinds[a]);

            if (is_known(&set->axes[a], i)) {
                continue;
            }
            for (size_t k = 0; k < (json_is_array(value) ? json_array_size(value) : 1); k++) {
                add_plugin(provenance, config, kinds[a], at->label,
                           json_is_array(value) ? json_array_get(value, k) : value, job);
            }
        }
    }
}

/* --- models ------------------------------------------------------------------------------------*/

static bool add_session(struct pst_arena *arena, struct pst_provenance_config *config,
                        const struct pst_job *job, struct pst_error *err)
{
    struct pst_session *session = NULL;

    if (pst_session_create_for_planning(job, &session, err) != PST_OK) {
        return false;
    }
    config->model = pst_arena_strdup(arena, session->graph->name);
    config->model_digest = session->graph->digest;
    if (session->calibrated) {
        char *text = pst_calibration_profile_file(session);

        config->profile = pst_arena_strdup(arena, text);
        config->profile_digest = digest_of(arena, text);
        free(text);
    }
    pst_session_destroy(session);
    return true;
}

/* Lists may replace what a config cannot have: its first combination has the model, too. */
static bool add_first(struct pst_arena *arena, struct pst_provenance_config *config,
                      const struct pst_combinations *set)
{
    char *text = pst_combination_config(set, 0, 0, 0);
    struct pst_config *first = NULL;
    struct pst_job job = {.config = NULL};
    struct pst_error unused;
    pst_status status = pst_config_from_json(text, &first, &unused);
    bool added;

    PST_TRY(status, pst_job_read(first, &job, &unused));
    added = status == PST_OK && add_session(arena, config, &job, &unused);
    pst_job_finish(&job);
    pst_config_destroy(first);
    free(text);
    return added;
}

void pst_provenance_add(struct pst_provenance *provenance, const struct pst_job *job,
                        const struct pst_combinations *set)
{
    struct pst_arena *arena = &provenance->arena;
    struct pst_provenance_config *before = provenance->configs, *config;
    struct pst_error err;
    char *text = pst_json_text(set->base);

    provenance->configs =
        pst_arena_array(arena, (size_t)provenance->n_configs + 1, sizeof *provenance->configs);
    for (uint32_t i = 0; i < provenance->n_configs; i++) {
        provenance->configs[i] = before[i];
    }
    config = &provenance->configs[provenance->n_configs++];
    *config = (struct pst_provenance_config){
        .path = set->path,
        .model = "",
        .profile = job->profile.file,
        .profile_digest = job->profile.file[0] == '\0' ? "" : digest_of(arena, job->profile.file),
        .seed = job->train.seed,
        .device = job->run.device,
        .transport = job->run.transport,
        .config_json = pst_arena_strdup(arena, text),
    };
    free(text);
    if (!add_session(arena, config, job, &err) && !add_first(arena, config, set)) {
        pst_log(PST_LOG_WARN, set->path, "the model is not stated: %s", err.message);
    }
    add_plugins(provenance, config, job, set);
}

const char *pst_provenance_words(struct pst_arena *arena,
                                 const struct pst_provenance_config *config, const char *kind,
                                 const char *label)
{
    const char *words = "";

    for (uint32_t i = 0; i < config->n_plugins; i++) {
        const struct pst_provenance_plugin *plugin = &config->plugins[i];

        if (strcmp(plugin->kind, kind) == 0 && strcmp(plugin->label, label) == 0) {
            words = pst_arena_printf(arena, "%s%s%s %s xxh128:%s %s", words,
                                     words[0] == '\0' ? "" : "; ", plugin->id, plugin->version,
                                     plugin->digest, plugin->parameters);
        }
    }
    return words;
}

void pst_provenance_finish(struct pst_provenance *provenance)
{
    pst_arena_finish(&provenance->arena);
    memset(provenance, 0, sizeof *provenance);
}
