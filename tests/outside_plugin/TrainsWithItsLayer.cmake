# A network with the plugin's layer trains.
include(${SOURCE}/training.cmake)
if(skipped)
  return()
endif()
train_everywhere(network.use=${SOURCE}/mish_network.toml train.optimizer.learning_rate=0.1 run.epochs=15)
