/* SPDX-License-Identifier: Apache-2.0
 *
 * The file of a model, by its path and its checksum.
 */
#include "models/model_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/link.h"
#include "base/memory.h"
#include "config/config.h"
#include "models/builder.h"

/* The key of [model] that names it; NULL: there is none. */
static struct pst_config_node *file_node(const struct pst_job *job)
{
    struct pst_config_node *use = pst_config_get(job->model, "use");
    const struct pst_model_builder *builder =
        use == NULL ? NULL : pst_model_builder_find(use->value.string);

    for (uint32_t i = 0; builder != NULL && i < builder->n_params; i++) {
        if (builder->params[i].type == PST_PARAM_PATH &&
            strcmp(builder->params[i].key, "file") == 0) {
            pst_config_resolve(job->config, job->model, "file");
            return pst_config_get(job->model, "file");
        }
    }
    return NULL;
}

static pst_status hash_file(const char *path, char text[PST_HASH_TEXT], struct pst_error *err)
{
    struct pst_hash hash;

    if (!pst_hash_file(AT_FDCWD, path, 0, &hash)) {
        return pst_fail_at(err, PST_ERR_IO, "input.path", path, 0, 0, "cannot read the file: %s",
                           strerror(errno));
    }
    pst_hash_text(&hash, text);
    return PST_OK;
}

pst_status pst_model_file_describe(const struct pst_job *job, struct pst_arena *arena,
                                   const char **ret_path, const char **ret_hash,
                                   struct pst_error *err)
{
    const struct pst_config_node *node = file_node(job);
    char whole[PATH_MAX], text[PST_HASH_TEXT], *folder;
    const char *name;
    pst_status status;

    *ret_path = *ret_hash = NULL;
    if (node == NULL || node->kind != PST_CONFIG_STRING) {
        return PST_OK;
    }
    /* A file that is a link stays one: files that the model names lie beside the link. */
    folder = pst_link_folder(node->value.string);
    name = realpath(folder, whole);
    free(folder);
    if (name == NULL) {
        pst_heed_no_memory();
        return pst_fail_at(err, PST_ERR_IO, "input.path", node->value.string, 0, 0,
                           "cannot find the file: %s", strerror(errno));
    }
    status = hash_file(node->value.string, text, err);
    if (status == PST_OK) {
        name = strrchr(node->value.string, '/');
        name = name == NULL ? node->value.string : name + 1;
        *ret_path = pst_arena_printf(arena, "%s/%s", strcmp(whole, "/") == 0 ? "" : whole, name);
        *ret_hash = pst_arena_strdup(arena, text);
    }
    return status;
}

pst_status pst_model_file_use(const struct pst_job *job, const char *path, const char *hash,
                              struct pst_error *err)
{
    struct pst_config_node *node = file_node(job);
    char text[PST_HASH_TEXT];
    pst_status status;

    if (node == NULL || node->kind != PST_CONFIG_STRING) {
        return PST_OK;
    }
    if (access(path, R_OK) == 0) {
        node->value.string = pst_arena_strdup(&job->config->arena, path);
    } else if (access(node->value.string, R_OK) != 0) {
        status = pst_fail_at(err, PST_ERR_IO, "input.path", path, 0, 0,
                             "the model's file, from which the checkpoint was trained, is missing");
        pst_error_hint(err, "put it back there, or into the current folder as %s",
                       node->value.string);
        return status;
    }
    status = hash_file(node->value.string, text, err);
    if (status == PST_OK && strcmp(text, hash) != 0) {
        status =
            pst_fail_at(err, PST_ERR_CONFIG, "weights.mismatch", node->value.string, 0, 0,
                        "the model's file has changed since the checkpoint was trained from it");
    }
    return status;
}
