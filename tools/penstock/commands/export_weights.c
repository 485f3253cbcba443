/* SPDX-License-Identifier: Apache-2.0
 *
 * `penstock export weights CHECKPOINT -o FOLDER`: what was trained, as others load it. The
 * checkpoint brings the config that it was trained with.
 */
#include "commands/export_weights.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "train/begin.h"
#include "train/checkpoint.h"
#include "train/session.h"
#include "train/weights.h"

#define SHARD_BYTES 5000000000u /* as the hub's files have at most */

/* The job that the checkpoint was trained with. */
static void open_job(struct pst_cli *cli, const char *path, struct pst_cli_job *ret_job)
{
    struct pst_checkpoint *checkpoint = NULL;
    pst_status st = pst_begin_find_checkpoint(path, &checkpoint, &cli->err);

    pst_cli_must(cli, st);
    if (checkpoint == NULL) {
        pst_cli_must(cli, pst_fail_at(&cli->err, PST_ERR_IO, "input.path", path, 0, 0,
                                      "there is no checkpoint"));
    }
    pst_cli_must(cli,
                 pst_config_from_json(checkpoint->manifest.config, &ret_job->config, &cli->err));
    pst_checkpoint_close(checkpoint);
    pst_cli_must(cli, pst_job_read(ret_job->config, &ret_job->job, &cli->err));
}

void pst_export_weights(struct pst_cli *cli, const char *checkpoint, const char *folder)
{
    struct pst_cli_job job = {.session = NULL};
    struct pst_graph *graph = NULL;
    struct pst_begin *begin = NULL;

    open_job(cli, checkpoint, &job);
    pst_cli_must(cli, pst_session_graph(&job.job, &graph, &cli->err));
    pst_cli_must(cli, pst_begin_open(checkpoint, &job.job, graph, true, &begin, &cli->err));
    pst_cli_must(cli, pst_weights_write(&job.job, graph, pst_begin_source(begin), folder,
                                        SHARD_BYTES, &cli->err));
    if (cli->json) {
        pst_json_string(&cli->answer, "format", "weights");
        pst_json_string(&cli->answer, "folder", folder);
        pst_json_uint(&cli->answer, "parameters", pst_graph_parameters(graph));
    } else {
        printf("%s: %llu parameters of model %s\n", folder,
               (unsigned long long)pst_graph_parameters(graph), graph->name);
    }
    pst_begin_close(begin);
    pst_graph_destroy(graph);
    pst_cli_job_close(&job);
}
