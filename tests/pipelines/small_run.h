// A run of two epochs on the drawn shapes, for tests of runs distributed over processes.
#pragma once

#include <fmt/format.h>

#include <string>

namespace millrace::test {

constexpr const char* kSmallPipeline = R"([run]
name   = "small"
epochs = 2
seed   = 3
[network]
use = "network.toml"
[train]
flow = ["read", "decode_image", "augment", "batch", "forward_backward", "allreduce", "optimizer", "metrics"]
[train.read]
stage   = "read_folder"
path    = "{0}/train"
shuffle = "every-epoch"
[train.decode_image]
size = [32, 32]
[train.augment]
flip_x = 0.5
[train.batch]
size = 40
[train.optimizer]
momentum      = 0.9
learning_rate = 0.05
[validate]
every = "epoch"
flow  = ["read", "decode_image", "batch", "forward", "metrics"]
[validate.read]
stage = "read_folder"
path  = "{0}/test"
[validate.decode_image]
size = [32, 32]
[validate.batch]
size = 50
last = "keep"
)";

// {} is a place for additional layers.
constexpr const char* kSmallNetwork = R"(input  = {{ channels = 3, height = 32, width = 32 }}
layers = [ {{ op = "conv", out = 8, kernel = 3 }}, {} {{ op = "relu" }}, {{ op = "max_pool", kernel = 2 }},
           {} {{ op = "conv", out = 12, kernel = 3 }}, {{ op = "global_average_pool" }}, {{ op = "linear", out = 10 }} ]
)";

}  // namespace millrace::test
