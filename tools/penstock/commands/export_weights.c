/* SPDX-License-Identifier: Apache-2.0
 *
 * `penstock export weights CHECKPOINT -o FOLDER`: what was trained, as others load it. The
 * checkpoint brings the config that it was trained with.
 */
#include "commands/export_weights.h"
#include "commands/searching.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/memory.h"
#include "base/text.h"
#include "base/util.h"
#include "checkpoint/checkpoint.h"
#include "data/tokenizer.h"
#include "loop/initial_values.h"
#include "models/model_file.h"
#include "session/session.h"
#include "tune/config_paths.h"
#include "weights/weights.h"

#define SHARD_BYTES 5000000000u /* as the hub's files have at most */

/* The job that the checkpoint was trained with. */
static void open_job(struct pst_cli *cli, const char *path, struct pst_cli_job *ret_job)
{
    struct pst_checkpoint *checkpoint = NULL;
    pst_status status = pst_begin_find_checkpoint(path, false, &checkpoint, &cli->err);
    char *text;

    pst_cli_must(cli, status);
    if (checkpoint == NULL) {
        pst_cli_must(cli, pst_fail_at(&cli->err, PST_ERR_IO, "input.path", path, 0, 0,
                                      "there is no checkpoint"));
    }
    text = checkpoint->manifest.folder == NULL
               ? pst_strdup(checkpoint->manifest.config)
               : pst_config_paths_move(checkpoint->manifest.config, checkpoint->manifest.folder,
                                       PST_PATHS_THERE);
    pst_cli_must(cli, pst_config_from_json(text, &ret_job->config, &cli->err));
    free(text);
    pst_cli_must(cli, pst_job_read(ret_job->config, &ret_job->job, &cli->err));
    if (checkpoint->manifest.model_file != NULL) {
        pst_cli_must(cli, pst_model_file_use(&ret_job->job, checkpoint->manifest.model_file,
                                             checkpoint->manifest.model_file_hash, &cli->err));
    }
    pst_checkpoint_close(checkpoint);
}

/* The tokens mean nothing without it. A run may have ended long before it went away, so that is a
   warning. */
static pst_status copy_tokenizer(const char *from, const char *folder, struct pst_error *err)
{
    char *path = pst_printf("%s/tokenizer.json", folder), *text = NULL;
    struct pst_error why = {0};
    size_t length = 0;
    pst_status status = PST_OK;

    if (pst_file_read(from, PST_TOKENIZER_BYTES, "input.path", &text, &length, &why) == PST_OK) {
        status = pst_file_write(path, text, length, err);
    } else {
        pst_log(PST_LOG_WARN, "weights", "%s is not copied: %s", from, why.message);
    }
    free(text);
    free(path);
    return status;
}

void pst_export_weights(struct pst_cli *cli, const char *checkpoint, const char *folder,
                        const char *dtype)
{
    static const char *const types[] = {"f32", "bf16", NULL};
    const bool small = dtype != NULL && pst_cli_choose(cli, "dtype", dtype, types) == 1;

    struct pst_cli_job job = {.session = NULL};
    struct pst_graph *graph = NULL;
    struct pst_begin *begin = NULL;

    open_job(cli, checkpoint, &job);
    job.job.parallel.tensors[0] = job.job.parallel.n_tensors =
        1; /* values are of the whole model */
    job.job.parallel.sequence = false;
    job.job.parallel.ways = 0;
    job.job.n_ways = 0;
    pst_cli_must(cli, pst_session_graph(&job.job, &graph, &cli->err));
    pst_cli_must(cli, pst_begin_open(checkpoint, &job.job, &graph, true, &begin, &cli->err));
    pst_cli_must(cli, pst_weights_write(&job.job, graph, pst_begin_source(begin), folder,
                                        small ? PST_ST_BF16 : PST_ST_F32, SHARD_BYTES, &cli->err));
    if (job.job.training->data.tokenizer[0] != '\0') {
        pst_cli_must(cli, copy_tokenizer(job.job.training->data.tokenizer, folder, &cli->err));
    }
    pst_searching_end();
    if (cli->json) {
        pst_json_string(&cli->answer, "format", "weights");
        pst_json_string(&cli->answer, "folder", folder);
        pst_json_uint(&cli->answer, "parameters", pst_graph_parameters(graph));
    } else {
        pst_text_printf(stdout, "%s: %llu parameters of model %s\n", folder,
                        (unsigned long long)pst_graph_parameters(graph), graph->name);
    }
    pst_begin_close(begin);
    pst_graph_destroy(graph);
    pst_cli_job_close(&job);
}
