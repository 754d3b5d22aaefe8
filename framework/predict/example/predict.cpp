// predict RUN IMAGE: prints each class and its score. RUN: the folder of a run, or a file of weights. IMAGE: JPEG or PNG.
#include <cstdio>
#include <exception>
#include <fstream>
#include <iterator>
#include <string>

#include "millrace/predict.hpp"

int main(int count, char** words) {
  if (count != 3) {
    std::puts("usage: predict RUN IMAGE");
    return 2;
  }
  try {
    const millrace::predict::Model model(words[1]);
    std::ifstream file(words[2], std::ios::binary);
    const std::string image{std::istreambuf_iterator<char>(file), {}};
    const auto scores = model.scores(millrace::predict::encoded(image.data(), image.size()));
    const auto classes = model.classes();
    for (std::size_t i = 0; i < scores.values.size(); ++i) {
      const std::string name = i < classes.size() ? classes[i] : std::to_string(i);
      std::printf("%s %.6f\n", name.c_str(), static_cast<double>(scores.values[i]));
    }
    return 0;
  } catch (const millrace::predict::Error& error) {
    std::printf("%s: %s\n", millrace_status_name(error.status()), error.what());
  } catch (const std::exception& error) {
    std::printf("%s: %s\n", words[2], error.what());
  }
  return 1;
}
