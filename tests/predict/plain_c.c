/* Prints the scores of images, in C99: plain_c RUN IMAGE... An image that cannot be used prints its status. */
#include <stdio.h>
#include <stdlib.h>

#include "millrace/predict.h"

static size_t read_file(const char* path, unsigned char** bytes) {
  FILE* file = fopen(path, "rb");
  long size = 0;
  *bytes = NULL;
  if (file == NULL) return 0;
  fseek(file, 0, SEEK_END);
  size = ftell(file);
  rewind(file);
  *bytes = malloc((size_t)size + 1);
  size = (long)fread(*bytes, 1, (size_t)size, file);
  fclose(file);
  return (size_t)size;
}

int main(int count, char** words) {
  millrace_error error;
  millrace_model* model;
  int i;
  if (count < 2 || millrace_open(words[1], NULL, &model, &error) != MILLRACE_OK) {
    printf("%s\n", count < 2 ? "usage: plain_c RUN IMAGE..." : error.text);
    return 1;
  }
  for (i = 2; i < count; ++i) {
    float scores[1000];
    unsigned char* bytes;
    const size_t size = read_file(words[i], &bytes);
    millrace_output output = {0};
    output.size = sizeof output;
    output.kind = MILLRACE_SCORES;
    output.data = scores;
    output.bytes = sizeof scores;
    if (bytes != NULL && millrace_predict_encoded(model, bytes, size, &output, 1, &error) == MILLRACE_OK) {
      int c;
      for (c = 0; c < output.channels; ++c) printf("%s %.6f\n", millrace_name(model, MILLRACE_CLASS_NAMES, (size_t)c), (double)scores[c]);
    } else {
      printf("%s\n", bytes == NULL ? "missing" : millrace_status_name(error.status));
    }
    free(bytes);
  }
  millrace_close(model);
  return 0;
}
