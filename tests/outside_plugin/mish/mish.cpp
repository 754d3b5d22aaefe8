#include "mish_kernels.h"

#include <millrace/layer.h>
#include <millrace/plugin.h>

class MishLayer final : public millrace::PortableLayer {
 public:
  struct Params {};
  static void describe(millrace::LayerDescription<Params>& d) {
    d.name("mish_activation").text("x tanh(softplus(x)).").example("", {{8, 5, 7}}).example("", {{10}});
  }
  void forward(millrace::Pass& pass) const override { pass.each<Mish>(pass.in(), pass.out()); }
  void backward(millrace::Pass& pass) const override { pass.each<MishGradient>(pass.in(), pass.d_out(), pass.d_in()); }
};

MILLRACE_PLUGIN("mish", "1.0", "The activation mish.") { registry.add_layer<MishLayer>(); }
