/* SPDX-License-Identifier: Apache-2.0
 *
 * tools/penstock_from_torch.py on a small module whose bytes can be counted by hand, with the
 * PyTorch of PENSTOCK_TORCH_PYTHON, or /opt/torch/bin/python. Skipped where there is none.
 */
#include "models/costed/costed_file.h"

#include "test.h"

#include "support.h"

/* Two branches, an operator in place, a parameter without a module, a view with a size. Loop is the
   same with a loop over a proxy, which torch.fx refuses and torch.export traces. */
static const char module[] =
    "import torch\n"
    "from torch import nn\n"
    "class Net(nn.Module):\n"
    "    def __init__(self):\n"
    "        super().__init__()\n"
    "        self.conv = nn.Conv2d(3, 8, 3, padding=1)\n"
    "        self.act = nn.ReLU(inplace=True)\n"
    "        self.table = nn.Embedding(100, 16)\n"
    "        self.scale = nn.Parameter(torch.ones(16))\n"
    "        self.head = nn.Linear(8 * 16 + 16, 10)\n"
    "    def forward(self, image, tokens):\n"
    "        x = self.act(self.conv(image))\n"
    "        x = x.view(x.size(0), -1)\n"
    "        y = self.table(tokens).mean(1) * self.scale\n"
    "        return self.head(torch.cat([x, y], 1))\n"
    "class Loop(Net):\n"
    "    def forward(self, image, tokens):\n"
    "        for i in range(image.shape[2] - 3):\n"
    "            image = image + 1\n"
    "        return super().forward(image, tokens)\n"
    "class Twins(nn.Module):\n"
    "    def __init__(self):\n"
    "        super().__init__()\n"
    "        self.a, self.b, self.f = [nn.Linear(8, 8) for i in range(3)]\n"
    "        self.c = nn.Linear(8, 8, bias=False)\n"
    "        self.d = nn.Softmax(1)\n"
    "        self.e = nn.Softmax(0)\n"
    "    def forward(self, x):\n"
    "        return self.e(self.d(self.c(self.f(self.b(self.a(x))))))\n"
    "def nothing():\n"
    "    return 3\n";

static const char *python;

/* All runs in one process, because loading PyTorch takes seconds: names of logs, arguments. */
static const char driver[] =
    "import contextlib, sys\n"
    "sys.path.insert(0, sys.argv[1])\n"
    "from penstock_from_torch import main\n"
    "runs = {\n"
    "  'net': ['module:Net', *SHAPES, '--batch-sizes', '1,2', '--name', 'small', '-o', "
    "'net.json'],\n"
    "  'parts': ['module:Net', *SHAPES, '--by-modules', '-o', 'parts.json'],\n"
    "  'loop': ['module:Loop', *SHAPES, '-o', 'loop.json'],\n"
    "  'twins': ['module:Twins', '--input', '4x8', '-o', 'twins.json'],\n"
    "  'threads': ['module:Net', *SHAPES, '--threads', '0'],\n"
    "  'nothing': ['module:nothing', *SHAPES],\n"
    "  'missing': ['module:missing', *SHAPES],\n"
    "  'few': ['module:Net', '--input', '4x3x4x4'],\n"
    "  'wide': ['module:Net', '--input', '4x3x9x9', '--input', '4x5:int64:100'],\n"
    "  'shape': ['module:Net', '--input', '4xtwo'],\n"
    "  'sizes': ['module:Net', *SHAPES, '--batch-sizes', '0']}\n"
    "for name, words in runs.items():\n"
    "  with open(name + '.log', 'w') as log, contextlib.redirect_stderr(log):\n"
    "    code = main(words + ['--repeats', '2', '--warmup', '1'])\n"
    "    print('code', code, file=log)\n";

static int run_all(void **state)
{
    char command[512], *text = NULL;

    if (support_begin(state) != 0 ||
        asprintf(&text, "SHAPES = '--input 4x3x4x4 --input 4x5:int64:100'.split()\n%s", driver) <
            0) {
        return -1;
    }
    support_write("driver.py", text);
    support_write("module.py", module);
    free(text);
    snprintf(command, sizeof command, "cd '%s' && '%s' driver.py '%s/tools'", support_folder,
             python, PENSTOCK_SOURCE_DIR);
    return system(command);
}

static void expect_log(const char *name, const char *code, const char *words)
{
    char file[32], *log;

    snprintf(file, sizeof file, "%s.log", name);
    log = support_read(support_path(file));
    assert_non_null(log);
    expect_text(log, code);
    expect_text(log, words);
    free(log);
}

static struct pst_costed *read_graph(const char *name)
{
    struct pst_costed *graph = NULL;
    struct pst_error err = {0};

    assert_ok(pst_costed_read(support_path(name), &graph, &err), &err);
    return graph;
}

TEST(test_bytes)
{
    /* Floats are 4 bytes; 4 samples. The convolution keeps its image (4 x 48 floats) but not its
       output, which ReLU does not read; the table its tokens, 4 x 5 of 8 bytes. */
    static const struct {
        const char *name, *op;
        double param_bytes, saved_bytes, output_bytes;
        const char *module; /* "": the whole */
    } expected[] = {
        {"conv", "Conv2d", (8 * 27 + 8) * 4, 4 * 48 * 4, 4 * 128 * 4, "conv"},
        {"act", "ReLU", 0, 4 * 128 * 4, 4 * 128 * 4, "act"},
        {"view", "view", 0, 0, 4 * 128 * 4, ""},
        {"table", "Embedding", 1600 * 4, 4 * 5 * 8, 4 * 5 * 16 * 4, "table"},
        {"mean", "mean", 0, 4 * 16 * 4, 4 * 16 * 4, ""},
        {"mul", "mul", 16 * 4, 0, 4 * 16 * 4, ""},
        {"cat", "cat", 0, 4 * 144 * 4, 4 * 144 * 4, ""},
        {"head", "Linear", (144 * 10 + 10) * 4, 0, 4 * 10 * 4, "head"},
    };
    struct pst_costed *graph;

    expect_log("threads", "code 2", "--threads must be at least 1");
    expect_log("net", "code 0", "measuring 2 samples");
    graph = read_graph("net.json");
    assert_string_equal(graph->name, "small");
    assert_int_equal(graph->batch, 4);
    assert_int_equal(graph->n_nodes, 8);
    assert_int_equal(graph->n_edges, 7);
    for (uint32_t i = 0; i < 8; i++) {
        const struct pst_costed_node *node = &graph->nodes[i];

        assert_string_equal(node->name, expected[i].name);
        assert_string_equal(node->op, expected[i].op);
        assert_string_equal(node->module == NULL ? "" : node->module, expected[i].module);
        if (node->param_bytes != expected[i].param_bytes ||
            node->saved_bytes != expected[i].saved_bytes ||
            node->output_bytes != expected[i].output_bytes) {
            fail_msg("%s: %g %g %g bytes", node->name, node->param_bytes, node->saved_bytes,
                     node->output_bytes);
        }
        assert_int_equal(node->n_times, 2);
        assert_int_equal(node->times[1].samples, 2);
        assert_true(node->times[0].ns[0] > 0);
    }
    /* Images and tokens need no gradient; what has no parameters takes no time for them. */
    assert_true(graph->nodes[0].times[0].ns[1] == 0 && graph->nodes[3].times[0].ns[1] == 0);
    assert_true(graph->nodes[6].times[0].ns[2] == 0);
    pst_costed_destroy(graph);
}

TEST(test_equal_operators_are_measured_once)
{
    struct pst_costed *graph;

    expect_log("twins", "code 0", "of operators that are equal one was measured for all");
    graph = read_graph("twins.json");
    assert_int_equal(graph->n_nodes, 6);
    for (uint32_t pass = 0; pass < 3; pass++) { /* to the nanosecond: one measurement */
        assert_true(graph->nodes[2].times[0].ns[pass] == graph->nodes[1].times[0].ns[pass]);
    }
    /* What differs in a bias, a gradient or an attribute is not the same. */
    expect_log("twins", "code 0", "         2 ");
    expect_log("twins", "code 0", "Linear");
    assert_non_null(strstr(graph->notes, "cpu, 1 threads"));
    pst_costed_destroy(graph);
}

TEST(test_nodes_up_to_the_end_of_a_module_are_one)
{
    /* conv; act; view and table; mean, mul, cat and head. The third gives the results of both. */
    static const char *const names[] = {"conv", "act", "table", "head"};
    struct pst_costed *graph;

    expect_log("parts", "code 0", "measuring 4 samples");
    graph = read_graph("parts.json");
    assert_int_equal(graph->n_nodes, 4);
    for (uint32_t i = 0; i < 4; i++) {
        assert_string_equal(graph->nodes[i].name, names[i]);
        assert_string_equal(graph->nodes[i].module, names[i]);
    }
    assert_string_equal(graph->nodes[1].op, "ReLU");
    assert_string_equal(graph->nodes[2].op, "module");
    assert_true(graph->nodes[2].output_bytes == 4 * 128 * 4 + 4 * 5 * 16 * 4);
    assert_true(graph->nodes[3].param_bytes == 16 * 4 + (144 * 10 + 10) * 4);
    assert_true(graph->nodes[3].saved_bytes == 4 * 16 * 4 + 4 * 144 * 4);
    assert_true(graph->nodes[3].output_bytes == 4 * 10 * 4);
    assert_int_equal(graph->n_edges, 3);
    assert_true(graph->edges[1].bytes == 4 * 128 * 4);
    assert_true(graph->edges[2].bytes == graph->nodes[2].output_bytes);
    assert_true(graph->nodes[3].times[0].ns[2] > 0);
    pst_costed_destroy(graph);
}

TEST(test_export_where_fx_fails)
{
    struct pst_costed *graph;

    expect_log("loop", "code 0", "measuring 4 samples");
    graph = read_graph("loop.json");
    assert_non_null(strstr(graph->notes, "torch.export"));
    assert_int_equal(graph->n_nodes, 9); /* one more: the addition */
    assert_null(graph->nodes[0].module);
    assert_string_equal(graph->nodes[1].module, "conv");
    pst_costed_destroy(graph);
}

TEST(test_requests_refused)
{
    expect_log("nothing", "code 2", "gives int, not a torch.nn.Module");
    expect_log("missing", "code 2", "has no attribute 'missing'");
    expect_log("few", "code 2",
               "cannot be called with 1 inputs: missing a required argument: 'tokens'");
    expect_log("wide", "code 2", "node head");
    expect_log("shape", "code 2", "must be like");
    expect_log("sizes", "code 2", "at least one sample");
}

int main(void)
{
    python = getenv("PENSTOCK_TORCH_PYTHON");
    python = python == NULL ? "/opt/torch/bin/python" : python;
    if (access(python, X_OK) != 0) {
        printf("skipped: no PyTorch: %s cannot be run; PENSTOCK_TORCH_PYTHON names another\n",
               python);
        return 77;
    }
    return run_own_tests(run_all, support_end);
}
