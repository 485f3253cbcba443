/* SPDX-License-Identifier: Apache-2.0
 *
 * The core's sections of a config.
 */
#include "graph/cluster.h"
#include "job/training.h"
#include "unit/config/support.h"

#include "job_defaults.h"

static void read_ok(const char *toml, struct pst_config **ret_config, struct pst_job *ret_job)
{
    struct pst_error err;

    *ret_config = parse_ok(toml);
    if (pst_job_read(*ret_config, ret_job, &err) != PST_OK) {
        fail_msg("%u:%u: %s", err.line, err.column, err.message);
    }
}

static void close_job(struct pst_config *config, struct pst_job *job)
{
    pst_job_finish(job);
    pst_config_destroy(config);
}

static void refuse(const char *toml, const char *kind, uint32_t line, uint32_t column,
                   const char *message)
{
    struct pst_config *config = parse_ok(toml);
    struct pst_job job;
    struct pst_error err;

    memset(&job, 0xA5, sizeof job);
    assert_int_equal(pst_job_read(config, &job, &err), PST_ERR_CONFIG);
    expect_fault(&err, kind, line == 0 ? "" : "t.toml", line, column, message);
    assert_int_equal(job.n_memopt, 0xA5A5A5A5u); /* nothing is written */
    pst_config_destroy(config);
}

TEST(an_empty_config_has_defaults)
{
    struct pst_config *config;
    struct pst_job job;

    read_ok("", &config, &job);
    assert_ptr_equal(job.config, config);
    assert_string_equal(job.training->data.kind, "text");
    assert_true(job.training->loop.steps == 100 && job.train.batch == 32 &&
                job.train.microbatch == 4);
    assert_int_equal(job.train.optimizer, 3);
    assert_true(job.training->loop.lr == 1e-3 && job.training->loop.beta1 == 0.9 &&
                job.training->loop.beta2 == 0.95);
    assert_true(job.training->loop.eps == 1e-8 && job.train.weight_decay == 0.1 &&
                job.train.clip == 1);
    assert_int_equal(job.training->loop.schedule, 1);
    assert_true(job.training->loop.warmup == 10 && job.train.seed == 1);
    assert_string_equal(job.run.device, "cpu");
    assert_string_equal(job.run.transport, "threads");
    assert_string_equal(job.run.kernels, "auto");
    assert_string_equal(job.run.plan, "");
    assert_true(job.run.threads_per_device == 1);
    assert_int_equal(job.run.dtype, 0);
    assert_true(job.run.stall_limit == 600000000000u);
    assert_int_equal(job.n_memopt, 0);
    assert_null(job.model);
    assert_null(job.scheduler);
    close_job(config, &job);
}

TEST(tables_are_kept)
{
    struct pst_config *config;
    struct pst_job job;

    read_ok("[model]\nuse = 'gpt'\n[cluster]\n[partitioner]\n[scheduler]\n[compare]\n"
            "[[memopt]]\nuse = 'a'\n[[memopt]]\nuse = 'b'\n",
            &config, &job);
    assert_string_equal(job.model->key, "model");
    assert_string_equal(job.cluster->key, "cluster");
    assert_string_equal(job.partitioner->key, "partitioner");
    assert_string_equal(job.scheduler->key, "scheduler");
    assert_int_equal(job.n_memopt, 2);
    assert_string_equal(pst_config_get(job.memopt[1], "use")->value.string, "b");
    close_job(config, &job);
    read_ok("[memopt]\nuse = 'full'\n", &config, &job);
    assert_int_equal(job.n_memopt, 1);
    assert_string_equal(pst_config_get(job.memopt[0], "use")->value.string, "full");
    close_job(config, &job);
}

TEST(values_arrive)
{
    struct pst_config *config;
    struct pst_job job;

    read_ok("[data]\nkind = 'synthetic'\nseed = 3\n"
            "[train]\nbatch = 12\nmicrobatch = 6\noptimizer = 'sgd'\nwarmup = 0\nsteps = 5\n"
            "on_non_finite = 'skip'\n"
            "[run]\ndtype = 'bf16'\nstall_limit = '2 s'\nthreads_per_device = 4\n"
            "[output]\nlog_every = 2\n[plugins]\nisolate = 'never'\ntime_limit = 1.5\n",
            &config, &job);
    assert_string_equal(job.training->data.kind, "synthetic");
    assert_true(job.training->data.seed == 3);
    assert_true(job.train.batch == 12 && job.train.microbatch == 6 &&
                job.training->loop.steps == 5);
    assert_int_equal(job.train.optimizer, 0);
    assert_true(job.training->loop.warmup == 0);
    assert_int_equal(job.train.on_non_finite, 1);
    assert_int_equal(job.run.dtype, 1);
    assert_true(job.run.stall_limit == 2000000000 && job.run.threads_per_device == 4);
    assert_true(job.training->output.log_every == 2);
    assert_int_equal(job.plugins.isolate, 2);
    assert_true(job.plugins.time_limit == 1500000000);
    close_job(config, &job);
}

TEST(warm_up_follows_the_run)
{
    struct pst_config *config;
    struct pst_job job;

    read_ok("[train]\nsteps = 5\n", &config, &job);
    assert_true(job.training->loop.warmup == 0);
    close_job(config, &job);
    read_ok("[train]\nsteps = 250\n", &config, &job);
    assert_true(job.training->loop.warmup == 25);
    close_job(config, &job);
    read_ok("[train]\nsteps = 50000\n", &config, &job);
    assert_true(job.training->loop.warmup == 100);
    close_job(config, &job);
}

TEST(unknown_sections)
{
    refuse("[tarin]\nsteps = 1\n", "config.key", 1, 2,
           "unknown section \"tarin\"; did you mean \"train\"?");
    refuse("x = 1\n[zebra]\n", "config.key", 1, 1, "unknown key \"x\"");
    refuse("[zebra]\n", "config.key", 1, 2, "unknown section \"zebra\"");
    refuse("[train]\nstepz = 5\n", "config.key", 2, 1,
           "unknown key \"stepz\" in [train]; did you mean \"steps\"?");
    refuse("train = 5\n", "config.value", 1, 9, "[train] must be a table");
    refuse("model = 'gpt'\n", "config.value", 1, 9,
           "[model] must be a table; did you mean model.use = \"gpt\"?");
    refuse("memopt = 'full'\n", "config.value", 1, 10,
           "[[memopt]] must be a table; did you mean memopt.use = \"full\"?");
    refuse("memopt = ['full']\n", "config.value", 1, 11,
           "[[memopt]] must be a table; did you mean memopt.use = \"full\"?");
    refuse("data = 'text'\n", "config.value", 1, 8,
           "[data] must be a table; did you mean data.kind = \"text\"?");
    refuse("output = 'logs'\n", "config.value", 1, 10, "[output] must be a table");
    refuse("cluster = 'v100'\n", "config.value", 1, 11, "[cluster] must be a table");
    refuse("[[train]]\n", "config.value", 1, 1,
           "[train] must be a table; write [train], with one pair of brackets");
}

TEST(keys_of_other_tables_and_programs)
{
    refuse("steps = 3\n", "config.key", 1, 1, "\"steps\" belongs into [train]");
    refuse("[run]\nsteps = 3\n", "config.key", 2, 1,
           "unknown key \"steps\" in [run]; it belongs into [train]");
    /* [data] has a seed, too; [plugins] and [profile] are not the only ones with a path or file */
    refuse("seed = 3\n", "config.key", 1, 1, "unknown key \"seed\"; did you mean train.seed?");
    refuse("[checkpoint]\npath = 'x'\n", "config.key", 2, 1,
           "unknown key \"path\" in [checkpoint]");
    refuse("[data]\nfile = 'x'\n", "config.key", 2, 1, "unknown key \"file\" in [data]");
    refuse("gradient_accumulation_steps = 8\n", "config.key", 1, 1,
           "unknown key \"gradient_accumulation_steps\"; did you mean train.microbatch, the batch "
           "divided by that?");
    refuse("[run]\nnum_train_epochs = 3\n", "config.key", 2, 1,
           "unknown key \"num_train_epochs\" in [run]; did you mean train.steps, which counts "
           "steps?");
    refuse("pipeline_parallel_size = 4\n", "config.key", 1, 1,
           "unknown key \"pipeline_parallel_size\"; did you mean cluster.devices, which counts all "
           "devices?");
}

TEST(too_many_memory_optimizers)
{
    char text[200] = "";
    struct pst_config *config;
    struct pst_job job;

    for (int i = 0; i < 8; i++) {
        strcat(text, "[[memopt]]\n");
    }
    read_ok(text, &config, &job);
    assert_int_equal(job.n_memopt, 8);
    close_job(config, &job);
    strcat(text, "[[memopt]]\n");
    refuse(text, "config.limit", 9, 1, "more than 8 memory optimizers ([[memopt]])");
}

TEST(values_must_fit_together)
{
    refuse("[train]\nmicrobatch = 5\n", "config.value", 2, 14,
           "\"microbatch\" in [train] is 5, which does not divide batch = 32; 4 or 8 would");
    refuse("[train]\nbatch = 12\nmicrobatch = 64\n", "config.value", 3, 14,
           "\"microbatch\" in [train] is 64, which does not divide batch = 12; 12 would");
    refuse("[train]\nbatch = 7\n", "config.value", 2, 9,
           "\"microbatch\" in [train] is 4, which does not divide batch = 7; 1 or 7 would");
    refuse("[train]\nsteps = 10\nwarmup = 11\n", "config.value", 3, 10,
           "\"warmup\" in [train] is 11, more than the run's 10 steps");
    refuse("[train]\nlr = 1e-4\nmin_lr = 0.001\n", "config.value", 3, 10,
           "\"min_lr\" in [train] is 0.001, more than lr = 0.0001");
    refuse("[train]\nbeta1 = 1\n", "config.value", 2, 9, "\"beta1\" in [train] must be below 1");
    refuse("[train]\nbeta2 = 1.0\n", "config.value", 2, 9, "\"beta2\" in [train] must be below 1");
    refuse("[train]\nsteps = 0\n", "config.value", 2, 9,
           "\"steps\" in [train] must be between 1 and 100000000, not 0");
    refuse("[train]\nmicrobatch = 0\n", "config.value", 2, 14,
           "\"microbatch\" in [train] must be between 1 and 1048576, not 0");
}

TEST(faults_of_several_sections)
{
    struct pst_config *config = parse_ok("[run]\ndevise = 'cpu'\n[train]\nsteps = 'x'\nlr = -1\n"
                                         "[zebra]\n");
    struct pst_job job;
    struct pst_error err;

    assert_int_equal(pst_job_read(config, &job, &err), PST_ERR_CONFIG);
    expect_fault(&err, "config.key", "t.toml", 2, 1,
                 "unknown key \"devise\" in [run]; did you mean \"device\"?");
    assert_string_equal(err.details,
                        "t.toml:4:9: \"steps\" in [train] must be an integer, not a string\n"
                        "t.toml:5:6: \"lr\" in [train] must be at least 0, not -1\n"
                        "t.toml:6:2: unknown section \"zebra\"\n");
    pst_config_destroy(config);
}

TEST_WITH(paths_are_resolved_once, make_folder, remove_folder)
{
    static const char *const sets[] = {"run.plan=p.json"};
    struct pst_config *config = NULL;
    struct pst_job job;
    struct pst_error err;

    write_text("main.toml", "[data]\ntrain = 'a.txt'\nvalid = '/b.txt'\n");
    assert_ok(pst_config_load(in_folder("main.toml"), sets, 1, &config, &err), &err);
    for (int i = 0; i < 2; i++) {
        assert_ok(pst_job_read(config, &job, &err), &err);
        assert_string_equal(job.training->data.train, in_folder("a.txt"));
        assert_string_equal(job.training->data.valid, "/b.txt");
        assert_string_equal(job.run.plan, "p.json"); /* typed here: relative to here */
        pst_job_finish(&job);
    }
    pst_config_destroy(config);
}

TEST(rows_are_sound)
{
    struct pst_error err;

    for (const struct pst_job_section *section = pst_job_sections; section->name != NULL;
         section++) {
        const size_t size = section->size + (section->more == NULL ? 0 : section->more->size);
        const uint32_t first = section->names_plugin != NULL; /* a string with words: as an enum */
        struct pst_param words = section->rows[0];

        words.type = first == 0 ? words.type : PST_PARAM_ENUM;
        if (pst_params_verify(&words, 1, sizeof words, size, &err) != PST_OK ||
            pst_params_verify(section->rows + first, section->n_rows - first, sizeof *section->rows,
                              size, &err) != PST_OK) {
            fail_msg("[%s] %s", section->name, err.message);
        }
    }
    assert_ok(pst_params_verify(pst_cluster_params, pst_cluster_n_params,
                                sizeof *pst_cluster_params, sizeof(struct pst_cluster), &err),
              &err);
}

TEST(cluster_defaults)
{
    struct pst_arena arena = {0};
    struct pst_cluster cluster;
    struct pst_error err;

    assert_ok(pst_params_fill(pst_cluster_params, pst_cluster_n_params, sizeof *pst_cluster_params,
                              NULL, "[cluster]", NULL, &arena, &cluster, &err),
              &err);
    assert_true(cluster.devices == 1 && cluster.memory == 0);
    assert_true(cluster.flops == 150e9 && cluster.bf16_flops == 300e9);
    assert_true(cluster.memory_bandwidth == 12000000000u && cluster.launch_overhead == 2000);
    assert_true(cluster.link_bandwidth == 8000000000u && cluster.link_latency == 5000);
    pst_arena_finish(&arena);
}
