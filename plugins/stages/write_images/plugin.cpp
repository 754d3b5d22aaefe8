#include "millrace/plugin.h"
#include "write_grad_cam.h"
#include "write_images.h"
#include "write_masks.h"
#include "write_quality.h"

MILLRACE_PLUGIN("write_images", "1.0", "Predicted pictures and masks as PNG, through libpng.") {
  registry.add_stage<millrace::WriteImages>();
  registry.add_stage<millrace::WriteGradCam>();
  registry.add_stage<millrace::WriteMasks>();
  registry.add_stage<millrace::WriteQuality>();
}
