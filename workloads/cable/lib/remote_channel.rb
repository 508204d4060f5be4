# frozen_string_literal: true

require_relative 'benchmark_channel'

# The same channel, with its streams named to AnyCable instead of being opened here.
class RemoteChannel < BenchmarkChannel
  def streams
    @streams ||= []
  end

  private

  def stream_from(name, *)
    streams << name
  end
end
