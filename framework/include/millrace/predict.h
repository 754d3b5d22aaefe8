/* libmillrace_predict: the predictions of a trained network in a program of your own, in C. predict.hpp is for C++.
 *
 *   millrace_error error;
 *   millrace_model* model;
 *   if (millrace_open("runs/photos/latest", NULL, &model, &error) != MILLRACE_OK) return complain(error.text);
 *   float scores[10];
 *   millrace_output output = {sizeof output, MILLRACE_SCORES, NULL, scores, sizeof scores};
 *   if (millrace_predict_encoded(model, jpeg, jpeg_bytes, &output, 1, &error) != MILLRACE_OK) complain(error.text);
 *   millrace_close(model);
 *
 * Images are prepared as the run's validation prepared them: the weights say how. A restoring network takes each image at its own
 * size, if its layers can.
 *
 * Threading: every function may be called from any thread at any time, for one model too; millrace_close() only when no other
 * call uses the model. No function ends the process, throws, prints, or needs an environment variable. Outside models the library
 * keeps these: OMP_WAIT_POLICY, which opening a model sets if it is unset; loaded plugins; verdicts on oneDNN's kernels in the
 * user's cache folder (while it checks a new one, it replaces the handlers of SIGSEGV, SIGBUS, SIGFPE and SIGILL); and, until a
 * thread that predicts ends, the buffers of its largest image.
 *
 * Every structure except millrace_error begins with its size, which the caller sets to sizeof, so later versions can append fields
 * without breaking your program. Zero stands for the default of each field. Later versions only append functions, fields and
 * values.
 *
 * Errors: functions return a status, and write it with a text for people into `error`, unless that is NULL. */
#ifndef MILLRACE_PREDICT_H
#define MILLRACE_PREDICT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define MILLRACE_API __attribute__((visibility("default")))
#else
#define MILLRACE_API
#endif

typedef enum millrace_status {
  MILLRACE_OK = 0,
  MILLRACE_ARGUMENT = 1, /* a mistake in the call: a null pointer, a wrong size, a result that the network does not have */
  MILLRACE_MODEL = 2,    /* the run or the weights cannot be used: missing, damaged, or of a plugin that is missing */
  MILLRACE_IMAGE = 3,    /* the image cannot be used: neither JPEG nor PNG, truncated, too small */
  MILLRACE_BUFFER = 4,   /* a buffer is too small, and was not written: see millrace_output.needed. Others were */
  MILLRACE_DEVICE = 5,   /* the device is missing or failed */
  MILLRACE_MEMORY = 6,   /* out of memory */
  MILLRACE_FAILED = 7    /* anything else */
} millrace_status;

typedef struct millrace_error {
  millrace_status status;
  char text[1020]; /* UTF-8; ends with a zero */
} millrace_error;

typedef enum millrace_task {
  MILLRACE_CLASSES = 1,    /* one class for an image */
  MILLRACE_LABELS = 2,     /* any of several labels */
  MILLRACE_CLASS_MAP = 3,  /* a class for each pixel */
  MILLRACE_REGRESSION = 4, /* numbers */
  MILLRACE_RESTORATION = 5 /* an image */
} millrace_task;

typedef enum millrace_precision {
  MILLRACE_AS_TRAINED = 0, /* int8 if the weights have its scales; float32 where the processor lacks the run's precision */
  MILLRACE_FLOAT32 = 1,
  MILLRACE_BFLOAT16 = 2,
  MILLRACE_INT8 = 3 /* for weights that `pipeline-export --int8 --weights` wrote, on the processor */
} millrace_precision;

/* All have 8 bits a channel. */
typedef enum millrace_format {
  MILLRACE_GREY = 1,
  MILLRACE_RGB = 2,
  MILLRACE_BGR = 3,
  MILLRACE_RGBA = 4, /* alpha is ignored */
  MILLRACE_BGRA = 5
} millrace_format;

typedef enum millrace_kind {
  MILLRACE_NUMBERS = 0,        /* float: the network's result as it is, (channels) or (channels, height, width) */
  MILLRACE_SCORES = 1,         /* float, from 0 to 1, of each class or label */
  MILLRACE_CLASS_OF = 2,       /* uint8_t (height, width): the class of each pixel of the network's input */
  MILLRACE_CLASS_OF_IMAGE = 3, /* uint8_t: the class of each pixel of the caller's image; 255: outside the input */
  MILLRACE_PICTURE = 4,        /* uint8_t (height, width, channels): the restored image, R G B or grey */
  MILLRACE_FEATURES = 5        /* float: the output of a layer, as MILLRACE_NUMBERS */
} millrace_kind;

typedef struct millrace_model millrace_model;

typedef struct millrace_options {
  size_t size;
  int32_t threads;           /* that compute one prediction; 0: one for each processor that the calling thread may use.
                                Their number may change the last digits of results */
  int32_t workers;           /* predictions at once, each with a copy of the weights; further calls wait. 0: 1 */
  int32_t precision;         /* millrace_precision */
  const char* device;        /* one, as in run.devices: "cpu", "gpu", "cuda:1", "auto". NULL: "cpu" */
  const char* const* layers; /* names of layers for MILLRACE_FEATURES. Such a layer is not fused with the next one, so results
                                may differ in the last digits */
  size_t layer_count;
} millrace_options;

typedef struct millrace_description { /* texts live as long as the model */
  size_t size;
  int32_t task;                    /* millrace_task */
  int32_t height, width, channels; /* of the network's input, behind the preparation */
  int32_t keeps_size;              /* 1: images keep their size, and the network takes it */
  int32_t precision;               /* in use: millrace_precision */
  size_t classes, numbers, layers; /* number of names: see millrace_name() */
  const char* network;             /* its name */
  const char* weights;             /* the file in use: of a run, the best weights or else the last ones */
} millrace_description;

typedef enum millrace_names { MILLRACE_CLASS_NAMES = 1, MILLRACE_NUMBER_NAMES = 2, MILLRACE_LAYER_NAMES = 3 } millrace_names;

typedef struct millrace_pixels {
  size_t size;
  const void* data; /* the first row's first pixel */
  int32_t width, height;
  ptrdiff_t stride; /* bytes from a row to the next one; negative: the last row is stored first. 0: rows without gaps */
  int32_t format;   /* millrace_format */
} millrace_pixels;

typedef struct millrace_output {
  size_t size;
  int32_t kind;                    /* millrace_kind */
  const char* layer;               /* for MILLRACE_FEATURES: one of millrace_options.layers */
  void* data;                      /* the caller's buffer, aligned for its type. NULL: only the fields below are set */
  size_t bytes;                    /* size of the buffer */
  size_t needed;                   /* set: bytes of the result */
  int32_t channels, height, width; /* set: its shape; height and width are 1 for vectors */
} millrace_output;

/* The library's version, "0.1.0", and the name of a status, "MILLRACE_IMAGE". */
MILLRACE_API const char* millrace_version(void);
MILLRACE_API const char* millrace_status_name(millrace_status status);

/* `path`: the folder of a run, or a file of weights (.safetensors) that Millrace wrote; UTF-8. `options`: NULL for defaults. Sets
 * `model` to NULL if it fails. */
MILLRACE_API millrace_status millrace_open(const char* path, const millrace_options* options, millrace_model** model,
                                           millrace_error* error);
MILLRACE_API void millrace_close(millrace_model* model); /* NULL is allowed */

MILLRACE_API millrace_status millrace_describe(const millrace_model* model, millrace_description* description,
                                               millrace_error* error);
/* A name by its index, which lives as long as the model. NULL if there is none. */
MILLRACE_API const char* millrace_name(const millrace_model* model, millrace_names of, size_t index);

/* Predicts one image, and writes each of `outputs` into its buffer. On MILLRACE_BUFFER `needed` of each is set. */
MILLRACE_API millrace_status millrace_predict_pixels(const millrace_model* model, const millrace_pixels* pixels,
                                                     millrace_output* outputs, size_t count, millrace_error* error);
/* The same from the bytes of a JPEG or PNG file. */
MILLRACE_API millrace_status millrace_predict_encoded(const millrace_model* model, const void* bytes, size_t size,
                                                      millrace_output* outputs, size_t count, millrace_error* error);

#ifdef __cplusplus
}
#endif

#endif
